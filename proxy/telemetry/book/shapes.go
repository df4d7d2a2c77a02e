package book

import (
	"hash/maphash"
	"math"
	"math/bits"
	"net/netip"
	"strings"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	mostShapes     = 256
	mostParameters = 12 // parameters counted for each shape
	mostNetworks   = 16 // networks counted for each shape
	mostPerRequest = 8  // parameters of a request that are counted
	mostParameter  = 63 // bytes of a parameter's name and value

	// fades is the number of seconds after which past use counts 1/e. Half of a rate then comes from the last
	// 3.5 s, so that a rate is similar to an average over 10 s.
	fades = recentSeconds / 2.0
	// leastPart is the smallest part of a shape's cost for which a parameter or network is shown.
	leastPart = 0.02
)

// shapes finds the most expensive shapes of pages.
type shapes struct {
	seed    maphash.Seed
	top     telemetry.Top[uint64] // rows by a hash of the shape that clients can't predict
	details []detail              // details of each row of top
}

// detail shows which clients request a shape, and with which parameters.
type detail struct {
	shape      string
	groups     [groups]float64 // CPU-seconds of each group, fading over time
	addresses  distinct
	parameters telemetry.Top[parameter]
	networks   telemetry.Top[netip.Prefix]
}

func newShapes(seed maphash.Seed) shapes {
	s := shapes{seed: seed, top: telemetry.NewTop[uint64](mostShapes), details: make([]detail, mostShapes)}
	for i := range s.details {
		d := &s.details[i]
		d.parameters, d.networks = telemetry.NewTop[parameter](mostParameters), telemetry.NewTop[netip.Prefix](mostNetworks)
	}
	return s
}

func (s *shapes) add(turn int, e *telemetry.Entry, address uint64, u telemetry.Use) {
	i, fresh := s.top.Add(maphash.String(s.seed, e.Shape), u)
	if i < 0 {
		return
	}
	d := &s.details[i]
	if fresh {
		d.clear()
		d.shape = e.Shape
	}
	d.groups[e.Group] = max(0, d.groups[e.Group]+u.CPU)
	d.addresses.add(turn, address)
	d.networks.Add(network(e.Client), u)
	d.addParameters(e.Target(), u)
}

func (d *detail) clear() {
	d.groups, d.addresses = [groups]float64{}, distinct{}
	d.parameters.Clear()
	d.networks.Clear()
}

func (s *shapes) fade(factor float64) {
	s.top.Fade(factor)
	for i := range s.details {
		if s.top.Rows[i].Free() {
			continue
		}
		d := &s.details[i]
		for g := range d.groups {
			d.groups[g] *= factor
		}
		d.parameters.Fade(factor)
		d.networks.Fade(factor)
	}
}

func (s *shapes) forget(turn int) {
	for i := range s.details {
		s.details[i].addresses.forget(turn)
	}
}

// network returns the /16 of a client's IPv4 address, or the /32 of its IPv6 address.
func network(a netip.Addr) netip.Prefix {
	long := 16
	if a.Is6() {
		long = 32
	}
	p, _ := a.Prefix(long) // an invalid address gets an invalid prefix
	return p
}

// parameter is the name and value of a URL's parameter, cut to mostParameter bytes.
type parameter struct {
	n     uint8
	bytes [mostParameter]byte
}

func (p *parameter) String() string { return string(p.bytes[:p.n]) }

// addParameters counts the parameters of a target, except for those without a value.
func (d *detail) addParameters(target string, u telemetry.Use) {
	_, query, _ := strings.Cut(target, "?")
	counted := 0
	for one := range telemetry.ParametersOf(query) {
		if _, value, _ := strings.Cut(one, "="); value == "" {
			continue
		}
		if counted++; counted > mostPerRequest {
			return
		}
		var p parameter
		p.n = uint8(copy(p.bytes[:], one)) //nolint:gosec // at most mostParameter
		d.parameters.Add(p, u)
	}
}

// Shapes returns at most limit shapes, the most expensive first, as of the Book's last update.
func (b *Book) Shapes(limit int) api.ShapesReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shapes
	// To get rates, divide the fading sums by the sum that a constant rate of 1 would have after this time.
	span := fades * (1 - math.Exp(-max(1, b.window.at)/fades))
	long := over{span, b.believed}
	reply := api.ShapesReply{Version: api.Version, Seconds: recentSeconds, Rows: []api.ShapeRow{}}
	order := s.top.Sorted(0)
	for _, i := range order[:min(limit, len(order))] {
		r, d := &s.top.Rows[i], &s.details[i]
		part := partOf(r, long)
		row := api.ShapeRow{
			Shape: d.shape, CPU: part.CPU, Rate: part.Rate, Mean: part.Mean, Groups: map[string]float64{},
			Addresses: d.addresses.estimate(), Parameters: []api.PartRow{}, Networks: []api.PartRow{},
		}
		for _, g := range telemetry.ShownGroups() {
			if cpu := rate(d.groups[g]*b.believed, span); cpu > 0 {
				row.Groups[g.String()] = cpu
			}
		}
		row.Parameters = partsOf(&d.parameters, leastPart*r.Sure(), long, (*parameter).String)
		row.Networks = partsOf(&d.networks, leastPart*r.Sure(), long, (*netip.Prefix).String)
		reply.Rows = append(reply.Rows, row)
	}
	return reply
}

// over is the period that sums cover, and the part of their CPU time that is plausible.
type over struct{ seconds, believed float64 }

func partOf[K comparable](r *telemetry.Row[K], o over) api.PartRow {
	return api.PartRow{CPU: rate(r.Sure()*o.believed, o.seconds), Rate: rate(r.N, o.seconds), Mean: round(max(0, r.Mean()) * o.believed)}
}

func partsOf[K comparable](t *telemetry.Top[K], least float64, long over, name func(*K) string) []api.PartRow {
	parts := []api.PartRow{}
	for _, i := range t.Sorted(least) {
		p := partOf(&t.Rows[i], long)
		p.Name = name(&t.Rows[i].Key)
		parts = append(parts, p)
	}
	return parts
}

// distinct estimates the number of different things in the last seconds, within about 5 %. It has a HyperLogLog
// (Flajolet et al., 2007) for each of a few stretches of time, and empties the oldest. The sketches in
// libraries only grow, and would allocate memory for each page.
type distinct [stretches][registers]uint8

const (
	registers    = 512
	registerBits = 9
	stretches    = 5
	// stretch is the length of a stretch in seconds. With this length, the estimate covers the last 9 to 11 s.
	stretch = recentSeconds / (stretches - 0.5)
)

// add adds a thing by its hash, which clients can't predict.
func (d *distinct) add(turn int, hash uint64) {
	r := &d[turn%stretches][hash>>(64-registerBits)]
	*r = max(*r, uint8(bits.LeadingZeros64(hash<<registerBits|1<<(registerBits-1)))+1) //nolint:gosec // 56 at most
}

// forget empties the stretch that begins with a turn.
func (d *distinct) forget(turn int) { clear(d[turn%stretches][:]) }

// estimate returns the estimated number of distinct things.
func (d *distinct) estimate() int {
	sum, empty := 0.0, 0
	for i := range registers {
		most := uint8(0)
		for s := range d {
			most = max(most, d[s][i])
		}
		if most == 0 {
			empty++
		}
		sum += math.Ldexp(1, -int(most))
	}
	const m = float64(registers)
	e := 0.7213 / (1 + 1.079/m) * m * m / sum
	if e <= 2.5*m && empty > 0 { // if there are few things, counting empty registers is more exact
		e = m * math.Log(m/float64(empty))
	}
	return int(math.Round(e))
}
