package sim

import (
	"math"
	"slices"
	"strconv"

	"tempomat/limiter"
)

// World is a site, its clients, and what they got.
type World struct {
	*engine
	site    site
	backend *backend // of the first instance, mostly the only one
	proxy   *proxy   // that instance
	fleet   []*proxy // all instances
	sticky  bool
	turn    int // requests that came to the balancer
	fresh   uint32
	number  int
	from    float64 // measured since

	latency map[string][]float64 // by kind of client; a failure took for ever
	usedBy  map[string]float64   // before from
	used    float64
	held    int     // most that waited
	waited  float64 // seconds in which anybody did
	worked  float64 // CPU-seconds used in them
	short   float64 // seconds in which the backend had too few CPUs or workers for what it had
}

// NewWorld makes a site of a scenario with nobody there yet.
func NewWorld(seed uint64, s Scenario, mode limiter.Mode) (*World, error) {
	w := &World{
		engine: newEngine(seed), site: s.site, sticky: s.Sticky,
		latency: map[string][]float64{}, usedBy: map[string]float64{}, fresh: 0x50000000,
	}
	for i := range max(1, s.Instances) {
		b := &backend{engine: w.engine, cpus: s.CPUs, workers: s.Workers, usedBy: map[string]float64{}}
		b.start(s.Forks)
		b.share()
		s.Beside.begin(b)
		p, err := newProxy(w.engine, b, s, mode, i)
		if err != nil {
			return nil, err
		}
		w.fleet = append(w.fleet, p)
	}
	w.proxy = w.fleet[0]
	w.backend = w.proxy.backend
	return w, nil
}

// balance is the instance that a request from an address goes to.
func (w *World) balance(address uint32) *proxy {
	if w.sticky {
		return w.fleet[Hash(w.seed)(strconv.FormatUint(uint64(address), 10))%uint64(len(w.fleet))]
	}
	w.turn++
	return w.fleet[w.turn%len(w.fleet)]
}

// Run plays the site for some seconds. What was before from is not measured.
func (w *World) Run(clients []*Client, from, until float64) {
	w.from = from
	for _, c := range clients {
		c.start(w)
	}
	w.run(from, w.pass)
	w.used = w.usedOwn()
	for _, p := range w.fleet {
		for kind, x := range p.backend.usedBy {
			w.usedBy[kind] += x
		}
	}
	w.run(until, w.pass)
}

// pass lets the time pass until the next event.
func (w *World) pass(to float64) {
	for _, p := range w.fleet {
		used := p.backend.used.own
		if w.now >= w.from && p.backend.isShort() {
			w.short += to - w.now
		}
		p.backend.pass(to - w.now)
		if w.now >= w.from && len(p.waiting) > 0 {
			w.waited += to - w.now
			w.worked += p.backend.used.own - used
		}
	}
}

// usedOwn is what all backends have used since the start, in CPU-seconds.
func (w *World) usedOwn() (x float64) {
	for _, p := range w.fleet {
		x += p.backend.used.own
	}
	return x
}

// cpus are those of all backends.
func (w *World) cpus() float64 { return w.backend.cpus * float64(len(w.fleet)) }

// note takes down how long a client waited for its answer.
func (w *World) note(r *request, ok bool) {
	if r.asked < w.from {
		return
	}
	kind := r.client.Kind
	if r.client.Part(r.page.Path) {
		kind += "'s parts"
	}
	if r.page.Path == "/heavy" && kind == "human" {
		kind = "humanHeavy"
	}
	took := math.Inf(1)
	if ok {
		took = w.now - r.asked
	}
	w.latency[kind] = append(w.latency[kind], took)
}

// Percentile is that of a kind of client's latencies, in milliseconds. Failures
// count as infinite.
func (w *World) Percentile(kind string, p float64) float64 {
	l := slices.Sorted(slices.Values(w.latency[kind]))
	if len(l) == 0 {
		return math.NaN()
	}
	return 1000 * l[min(len(l)-1, int(p*float64(len(l))))]
}

// Failed is the part of a kind of client's requests that failed.
func (w *World) Failed(kind string) float64 {
	n := 0
	for _, x := range w.latency[kind] {
		if math.IsInf(x, 1) {
			n++
		}
	}
	return float64(n) / float64(len(w.latency[kind]))
}

// Good is the part of a kind of client's requests that were answered within a
// second.
func (w *World) Good(kind string) float64 { return w.Within(kind, 1) }

// Within is the part that was answered within some seconds.
func (w *World) Within(kind string, most float64) float64 {
	n := 0
	for _, x := range w.latency[kind] {
		if x < most {
			n++
		}
	}
	return float64(n) / float64(len(w.latency[kind]))
}

// Answered is how many of a kind of client's requests were, each second.
func (w *World) Answered(kind string) float64 {
	return float64(w.Asked(kind)) * (1 - w.Failed(kind)) / (w.now - w.from)
}

// Short is the part of the time in which the backend had fewer CPUs or workers than its requests asked for.
func (w *World) Short() float64 { return w.short / (w.now - w.from) / float64(len(w.fleet)) }

// Asked is how many requests of a kind of client were answered or failed.
func (w *World) Asked(kind string) int { return len(w.latency[kind]) }

// Used is the part of the CPUs that was used, by some kinds of clients or, with
// none given, by all.
func (w *World) Used(kinds ...string) float64 {
	x := w.usedOwn() - w.used
	if len(kinds) > 0 {
		x = 0
		for _, k := range kinds {
			for _, p := range w.fleet {
				x += p.backend.usedBy[k]
			}
			x -= w.usedBy[k]
		}
	}
	return x / ((w.now - w.from) * w.cpus())
}

// UsedWhileWaiting is the part of the CPUs that was used while anybody waited at
// the gate; 1 if nobody ever did.
func (w *World) UsedWhileWaiting() float64 {
	if w.waited == 0 {
		return 1
	}
	return w.worked / (w.waited * w.backend.cpus)
}
