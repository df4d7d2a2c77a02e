package sim

import (
	"math/rand/v2"
	"time"
)

// engine is virtual time: a queue of future events. Times are in seconds.
type engine struct {
	now    float64
	events events
	seq    int64
	seed   uint64
	random *rand.Rand
	epoch  time.Time
}

type event struct {
	at  float64
	seq int64
	do  func()
}

func (x *event) before(y *event) bool { return x.at < y.at || x.at == y.at && x.seq < y.seq }

// events is a heap of events. container/heap would allocate each event twice.
type events []event

func (e *events) push(x event) {
	*e = append(*e, x)
	all := *e
	i := len(all) - 1
	for i > 0 {
		above := (i - 1) / 2
		if !x.before(&all[above]) {
			break
		}
		all[i] = all[above]
		i = above
	}
	all[i] = x
}

func (e *events) pop() event {
	all := *e
	first, x := all[0], all[len(all)-1]
	all[len(all)-1] = event{}
	all = all[:len(all)-1]
	*e = all
	i := 0
	for {
		below := 2*i + 1
		if below+1 < len(all) && all[below+1].before(&all[below]) {
			below++
		}
		if below >= len(all) || !all[below].before(&x) {
			break
		}
		all[i] = all[below]
		i = below
	}
	if i < len(all) {
		all[i] = x
	}
	return first
}

func newEngine(seed uint64) *engine {
	return &engine{
		seed:   seed,
		random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // runs must be repeatable
		epoch:  time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
	}
}

// after calls do after d seconds.
func (e *engine) after(d float64, do func()) {
	e.seq++
	e.events.push(event{e.now + max(0, d), e.seq, do})
}

// every calls do every d seconds.
func (e *engine) every(d float64, do func()) {
	var again func()
	again = func() {
		do()
		e.after(d, again)
	}
	e.after(d, again)
}

// run advances the time until the given time. Before each event, it calls passing with the event's time.
func (e *engine) run(until float64, passing func(to float64)) {
	for len(e.events) > 0 && e.events[0].at <= until {
		x := e.events.pop()
		passing(x.at)
		e.now = x.at
		x.do()
	}
	passing(until)
	e.now = until
}

// time returns the current instant, for the limiter.
func (e *engine) time() time.Time {
	return e.epoch.Add(time.Duration(e.now * float64(time.Second)))
}

// Hash returns a hash function for the estimator that depends only on a seed. It is the same in every process,
// so a run can be repeated. A hash with a secret key would differ in every run. Each seed causes different
// collisions. The function is FNV-1a without the allocations of package hash/fnv, because each tick hashes
// several texts for each waiting request.
func Hash(seed uint64) func(text string) uint64 {
	const basis, prime = 0xcbf29ce484222325, 0x100000001b3
	return func(text string) uint64 {
		h := uint64(basis)
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
		var mixed rand.PCG
		mixed.Seed(h, seed)
		return mixed.Uint64()
	}
}
