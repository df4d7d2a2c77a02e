// Package book adds up what requests cost: by group, by page, over time. It is told the time, and
// does no input or output.
//
// A [Book] holds what the last seconds were in fixed memory, whatever clients send, and what the
// last day was as a curve. It is told of requests that are over by Take, and of what runs by Running,
// so that a request of minutes shows while it runs: the entry of its end then adds what is left.
// A [History] has the last week, hour by hour.
//
//	book.go     what a Book is told, and the groups at this moment
//	series.go   sums of the last minute, by the second, and the curve
//	shapes.go   the pages that CPU time goes to, and how many addresses ask for them
//	recent.go   what went wrong for single requests
//	history.go  the hours, and what costs most in them
//
// # Memory
//
// A Book takes 4 MB at most. The hour that runs counts up to 500 names of each kind, which take 1 MB
// at most. Hours that are over are kept as the bytes that go to the file: 10 to 15 KB of a usual hour,
// 33 KB of one whose names are all as long as they may be, so 2 MB for a usual week and 5.5 MB at most.
package book

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/telemetry"
)

// Moment is what only the moment knows.
type Moment struct {
	Waiting telemetry.Waiting
	Gate    limiter.GateState
	Places  []telemetry.Place // at the backend, the most first
	CPUs    float64           // CPUs of the backend; 0: unknown
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
	turn      int     // current stretch for counting addresses
	strangers distinct
	shapes    shapes
	recent    recent
	series    [3]series
}

// New makes an empty Book that begins at began.
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
		of := &batch.Sums[g]
		s.over[g].Add(of)
		s.cpu[g] += (of.Cost - of.Told).Seconds()
		s.wasted += (of.Wasted - of.ToldWasted).Seconds()
	}
	for i := range batch.Entries {
		e := &batch.Entries[i]
		s.last(e)
		n := e.Weight
		u := telemetry.Use{CPU: (e.Cost - e.Told).Seconds() * n, N: n, Ended: e.Cost.Seconds() * n}
		if isWorkedOn(e) {
			u.Work = n
		}
		b.spendLocked(e, u)
		if isNotable(e) {
			b.recent.add(maphash.Comparable(b.seed, connlimit.ClientOf(e.Client)), e)
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
		b.spendLocked(e, telemetry.Use{CPU: cpu})
	}
}

// last counts how long a request lasted that may represent others.
func (s *sums) last(e *telemetry.Entry) {
	s.kept++
	switch e.Outcome {
	case telemetry.Refused, telemetry.Redirected, telemetry.ClientGone: // a client that disconnects does not make it faster
	default:
		if e.Status != 101 && !e.Orphan { // a connection of its own from then on, that lasts as long as it likes
			s.took[e.Group].Add(e.Took.Seconds(), e.Weight)
		}
	}
}

// isWorkedOn reports whether a request that is over came to the backend.
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
func (b *Book) spendLocked(e *telemetry.Entry, u telemetry.Use) {
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
		s.gauges.add(&m)
		if s.due(b.window.at) {
			p := point(&b.window, max(lately, s.step), b.believed, &s.gauges)
			p.At = unix(now)
			s.add(p)
		}
	}
	return *b.series[0].points.last(0)
}

// Overview is which clients use the server, as of the Book's last update. The caller fills in
// what isn't about requests (Release, Mode, Uptime).
func (b *Book) Overview(m Moment) api.OverviewReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, long := b.window.last(lately)
	reply := api.OverviewReply{
		Version: api.Version, Seconds: lately, Now: unix(b.told), Gate: m.Gate, Sampled: 1, Wasted: round(wasted(s, long) * b.believed),
		Strangers: api.StrangersRow{Addresses: b.strangers.estimate()}, Use: b.series[0].use(lately),
		CPUs: m.CPUs, Backend: b.backendLocked(s), Places: []api.PlaceRow{},
	}
	for _, p := range m.Places {
		reply.Places = append(reply.Places, api.PlaceRow{Group: p.Group.String(), Shape: p.Shape, Count: p.Count})
	}
	if reply.Use < 0 { // no measured second has ended: a part of the first one is better than nothing
		reply.Use = m.Gate.Utilisation
	}
	all := 0.0
	for _, g := range telemetry.ShownGroups() {
		row := api.GroupRow{
			Name: g.String(), CPU: rate(s.cpu[g]*b.believed, long), Rate: rate(s.requests(g), long),
			P50: round(s.took[g].Quantile(0.5)), P95: round(s.took[g].Quantile(0.95)),
			Refused: rate(s.ended(g, telemetry.Refused), long), Redirected: rate(s.ended(g, telemetry.Redirected), long),
			Waiting: m.Waiting.Count[g], Longest: round(m.Waiting.Longest[g].Seconds()),
		}
		reply.Groups = append(reply.Groups, row)
		reply.CPU = round(reply.CPU + row.CPU)
		all += s.requests(g)
		if g == telemetry.Stranger || g == telemetry.Newcomer {
			x := &reply.Strangers
			x.CPU = round(x.CPU + row.CPU)
			x.Waiting += row.Waiting
			x.Longest = max(x.Longest, row.Longest)
		}
	}
	if all > 0 {
		reply.Sampled = min(1, s.kept/all)
	}
	return reply
}

// believeLocked finds out what part of the CPU time that requests were charged they can have used:
// all together no more than the CPUs were in use. A page that sleeps is charged for the worker that
// it holds, and what is shown as CPU is not to be that.
func (b *Book) believeLocked(cpus float64) {
	b.believed = 1
	s, long := b.window.last(lately)
	charged := 0.0
	for _, x := range s.cpu {
		charged += x
	}
	if used := b.series[0].use(lately) * cpus * long; used >= 0 && cpus > 0 && charged > used {
		b.believed = used / charged
	}
}

// backendLocked is how requests to the backend ended in the last seconds; if there were none, in the
// last minute, so a site with few visitors does not look healthy by mistake.
func (b *Book) backendLocked(s *sums) api.BackendRow {
	seconds, all := lately, s.all()
	if all.AtBackend() == 0 {
		seconds = longest
		s, _ = b.window.last(longest)
		all = s.all()
	}
	n := func(x uint64) int { return int(x) } //nolint:gosec // of a minute
	return api.BackendRow{
		Seconds: float64(seconds), Requests: n(all.AtBackend()), Down: n(all.Ended[telemetry.BackendDown]),
		Slow: n(all.Ended[telemetry.BackendSlow]), Broke: n(all.Ended[telemetry.BackendBroke]), Errors: n(all.Failed),
	}
}

// unix is a time of the clock as the documents have it.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// wasted is at most what was used: if a request turns out to be wasted only at its end, part of
// its use was earlier.
func wasted(s *sums, long float64) float64 {
	all := 0.0
	for _, x := range s.cpu {
		all += x
	}
	return rate(min(s.wasted, all), long)
}

// rate is a sum per second, never below 0: a request may turn out to cost less than it
// seemed to while it ran.
func rate(sum, seconds float64) float64 { return round(max(0, sum) / seconds) }

// round keeps what can be shown.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }
