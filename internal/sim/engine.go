package sim

import (
	"container/heap"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// engine is virtual time: what is to happen, in order. Times are seconds.
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

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := len(old) - 1
	x := old[last]
	old[last] = event{}
	*e = old[:last]
	return x
}

func newEngine(seed uint64) *engine {
	return &engine{
		seed:   seed,
		random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // to be repeated
		epoch:  time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC),
	}
}

// after has something happen in so many seconds.
func (e *engine) after(d float64, do func()) {
	e.seq++
	heap.Push(&e.events, event{e.now + max(0, d), e.seq, do})
}

// every has something happen again and again.
func (e *engine) every(d float64, do func()) {
	e.after(d, func() {
		do()
		e.every(d, do)
	})
}

// run lets the time pass. Before each step it tells how much does.
func (e *engine) run(until float64, passing func(to float64)) {
	for len(e.events) > 0 && e.events[0].at <= until {
		x := heap.Pop(&e.events).(event)
		passing(x.at)
		e.now = x.at
		x.do()
	}
	passing(until)
	e.now = until
}

// time is the instant that the limiter is told.
func (e *engine) time() time.Time {
	return e.epoch.Add(time.Duration(e.now * float64(time.Second)))
}

// Hash makes a hash of a seed, for a guess: it is the same in every process, so that a
// run can be repeated, which no hash with a secret key can be. Who collides with whom is
// another matter with each seed.
func Hash(seed uint64) func(text string) uint64 {
	return func(text string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(text))
		return rand.NewPCG(h.Sum64(), seed).Uint64()
	}
}
