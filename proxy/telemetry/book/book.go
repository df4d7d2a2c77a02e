package book

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/sketch"
)

// Moment is what only the moment knows.
type Moment struct {
	Waiting telemetry.Waiting
	Gate    limiter.GateState
	Places  []telemetry.Place // at the backend, the most first
	CPUs    float64           // that the backend has; 0: nobody told
}

// Book is what requests add up to. It takes about 4 MB at most. One goroutine tells it of
// requests, by Take, Running and Tick, and of a time that does not go back; all methods
// may be called concurrently. It implements telemetry.Sink.
type Book struct {
	began time.Time
	seed  maphash.Seed

	mu        sync.Mutex // guards the following
	told      time.Time  // when it was told last, by a clock that may be set
	window    window
	believed  float64 // part of what requests were charged that they can have used, 0 to 1
	turn      int     // of the stretches in which addresses are counted
	strangers distinct
	shapes    shapes
	recent    recent
	series    [3]series
}

// New makes a Book of which nothing is known before began.
func New(began time.Time) *Book {
	seed := maphash.MakeSeed()
	b := &Book{began: began, told: began, believed: 1, seed: seed, shapes: newShapes(seed)}
	b.series = [...]series{newSeries(5*60, 1), newSeries(60*60, 10), newSeries(24*60*60, 60)}
	return b
}

// Take implements telemetry.Sink.
func (b *Book) Take(now time.Time, batch *telemetry.Batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(now)
	s := b.window.current()
	for g := range batch.Sums {
		s.end(telemetry.Group(g), &batch.Sums[g])
	}
	for i := range batch.Entries {
		e := &batch.Entries[i]
		s.last(e)
		n := e.Weight
		u := sketch.Use{CPU: (e.Cost - e.Told).Seconds() * n, N: n, Ended: e.Cost.Seconds() * n}
		if isWorkedOn(e) {
			u.Work = n
		}
		b.spendLocked(e, u)
		if isNotable(e) {
			b.recent.add(maphash.Comparable(b.seed, clientOf(e.Client)), e)
		}
	}
}

// Running takes in what requests that run have cost since it was told of them last, which
// is their Cost. They are told as Entry.Told of the entry that they end with.
func (b *Book) Running(now time.Time, entries []telemetry.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(now)
	s := b.window.current()
	for i := range entries {
		e := &entries[i]
		cpu := e.Cost.Seconds()
		s.cpu[e.Group] += cpu
		if e.Orphan {
			s.wasted += cpu
		}
		b.spendLocked(e, sketch.Use{CPU: cpu})
	}
}

// end counts the requests of a group that are over.
func (s *sums) end(g telemetry.Group, of *telemetry.Sums) {
	s.cpu[g] += (of.Cost - of.Told).Seconds()
	s.n[g] += float64(of.Requests)
	s.refused[g] += float64(of.Refused)
	s.redirected[g] += float64(of.Redirected)
	s.backend.Add(&of.Backend)
	s.wasted += (of.Wasted - of.ToldWasted).Seconds()
}

// last counts for how long a request lasted that others may stand behind.
func (s *sums) last(e *telemetry.Entry) {
	s.kept++
	switch e.Outcome {
	case telemetry.Refused, telemetry.Redirected, telemetry.ClientGone: // who leaves does not make it faster
	default:
		if e.Status != 101 && !e.Orphan { // a connection of its own from then on, that lasts as long as it likes
			s.took[e.Group].Add(e.Took.Seconds(), e.Weight)
		}
	}
}

// isWorkedOn tells whether a request that is over came to the backend.
func isWorkedOn(e *telemetry.Entry) bool {
	switch e.Outcome {
	case telemetry.Refused, telemetry.Redirected, telemetry.BackendDown:
		return false
	case telemetry.ClientGone:
		return e.Cost > 0
	default:
		return true
	}
}

// spendLocked counts what requests cost their page and client.
func (b *Book) spendLocked(e *telemetry.Entry, u sketch.Use) {
	address := maphash.Comparable(b.seed, e.Client)
	if e.Group == telemetry.Stranger || e.Group == telemetry.Newcomer {
		b.strangers.add(b.turn, address)
	}
	b.shapes.add(b.turn, e, address, u)
}

// advanceLocked has what is over fade.
func (b *Book) advanceLocked(now time.Time) {
	b.told = now
	was := b.window.at
	b.window.advance(now.Sub(b.began).Seconds())
	if past := b.window.at - was; past > 0 {
		b.shapes.fade(math.Exp(-past / fades))
	}
	turn := int(b.window.at / stretch)
	for t := max(b.turn+1, turn-stretches+1); t <= turn; t++ {
		b.strangers.forget(t)
		b.shapes.forget(t)
	}
	b.turn = turn
}

// Tick is called each second. It returns what is seen then.
func (b *Book) Tick(now time.Time, m Moment) api.Point {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(now)
	b.believeLocked(m.CPUs)
	for i := range b.series {
		s := &b.series[i]
		s.gauges.take(&m)
		if s.due(b.window.at) {
			p := point(&b.window, max(lately, s.step), b.believed, &s.gauges)
			p.At = unix(now)
			s.add(p)
		}
	}
	return b.series[0].newest()
}
