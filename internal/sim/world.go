package sim

import (
	"math"
	"slices"
	"strconv"

	"tempomat/limiter"
)

// World is a site, its clients, and the results.
type World struct {
	*engine
	site    site
	backend *backend // the backend of the first instance, which is usually the only one
	proxy   *proxy   // the first instance
	fleet   []*proxy // all instances
	sticky  bool
	turn    int // requests that have arrived at the load balancer
	fresh   uint32
	number  int
	from    float64 // start of the measurement

	latency map[string][]float64 // seconds, by kind of client; failures count as infinite
	usedBy  map[string]float64   // CPU-seconds by kind of client, used before from
	used    float64
	held    int     // the largest number of requests that waited at once
	waited  float64 // seconds in which any request waited
	worked  float64 // CPU-seconds used in those seconds
	short   float64 // seconds in which requests had to wait for a CPU or a worker of the backend
}

// NewWorld makes the site of a scenario, without clients.
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

// balance returns the instance to which a request from an address goes.
func (w *World) balance(address uint32) *proxy {
	if w.sticky {
		return w.fleet[Hash(w.seed)(strconv.FormatUint(uint64(address), 10))%uint64(len(w.fleet))]
	}
	w.turn++
	return w.fleet[w.turn%len(w.fleet)]
}

// Run runs the site with its clients until the given time. It measures only the time after from.
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

// pass advances the time to the next event.
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

// usedOwn returns the CPU-seconds that all backends have used since the start.
func (w *World) usedOwn() (x float64) {
	for _, p := range w.fleet {
		x += p.backend.used.own
	}
	return x
}

// cpus returns the number of CPUs of all backends.
func (w *World) cpus() float64 { return w.backend.cpus * float64(len(w.fleet)) }

// note records how long a client waited for its answer.
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

// Percentile returns a percentile of the latencies of a kind of client, in milliseconds. Failures count as
// infinite.
func (w *World) Percentile(kind string, p float64) float64 {
	l := slices.Sorted(slices.Values(w.latency[kind]))
	if len(l) == 0 {
		return math.NaN()
	}
	return 1000 * l[min(len(l)-1, int(p*float64(len(l))))]
}

// Failed returns the fraction of the requests from one kind of client that failed.
func (w *World) Failed(kind string) float64 {
	n := 0
	for _, x := range w.latency[kind] {
		if math.IsInf(x, 1) {
			n++
		}
	}
	return float64(n) / float64(len(w.latency[kind]))
}

// Good returns the fraction of the requests from one kind of client that were answered within a second.
func (w *World) Good(kind string) float64 { return w.Within(kind, 1) }

// Within returns the fraction of these requests that were answered within most seconds.
func (w *World) Within(kind string, most float64) float64 {
	n := 0
	for _, x := range w.latency[kind] {
		if x < most {
			n++
		}
	}
	return float64(n) / float64(len(w.latency[kind]))
}

// Answered returns how many requests of a kind of client were answered per second.
func (w *World) Answered(kind string) float64 {
	return float64(w.Asked(kind)) * (1 - w.Failed(kind)) / (w.now - w.from)
}

// Short returns the fraction of the time in which requests had to wait for a CPU or a worker of the backend.
func (w *World) Short() float64 { return w.short / (w.now - w.from) / float64(len(w.fleet)) }

// Asked returns how many requests of a kind of client were answered or failed.
func (w *World) Asked(kind string) int { return len(w.latency[kind]) }

// Used returns the fraction of the CPUs that the given kinds of clients used. If none are given, it returns the
// fraction that all used.
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

// UsedWhileWaiting returns the fraction of the CPUs that was used while any request waited at the gate. It
// returns 1 if no request ever waited.
func (w *World) UsedWhileWaiting() float64 {
	if w.waited == 0 {
		return 1
	}
	return w.worked / (w.waited * w.backend.cpus)
}
