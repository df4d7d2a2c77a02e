// Package book adds up the cost of requests, by group, by page and by hour. It gets the time as an argument,
// and does no I/O.
//
// A [Book] covers the last seconds, in an amount of memory that doesn't depend on clients. Take adds finished
// requests. Running adds requests in progress, so that a request of several minutes is shown while it runs.
// When it ends, Take adds only the part of its cost that Running hasn't added yet. A [History] covers the last
// week, hour by hour.
//
//	book.go     what a Book adds up, and the groups at this moment
//	window.go   sums of the last minute, by the second
//	shapes.go   the most expensive pages, and how many addresses ask for them
//	recent.go   the last requests that were refused, redirected, slow, or failed
//	history.go  the hours, and the most expensive clients and pages in each
//
// # Memory
//
// A Book takes 4 MB at most. A History counts up to 500 names of each kind in the current hour, which take 1 MB
// at most. Of each past hour it keeps up to 50 names of each kind, which take at most 50 KB, or 9 MB for a
// week.
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

// Moment is the state of the queue and the backend at this moment.
type Moment struct {
	Waiting telemetry.Waiting
	Gate    limiter.GateState
	Places  []telemetry.Place // requests at the backend by page, the most frequent first
	CPUs    float64           // CPUs of the backend; 0: unknown
}

// Book adds up requests. It takes about 4 MB at most. One goroutine calls Take, Running and Tick, with times
// that never decrease. The other methods may be called concurrently. It implements telemetry.Sink.
type Book struct {
	began time.Time
	seed  maphash.Seed

	mu        sync.Mutex // guards the fields below
	told      time.Time  // time of the last call of Take, Running or Tick
	window    window
	believed  float64 // part of the charged CPU time, 0 to 1, that requests can really have used
	turn      int     // number of the current stretch, in which distinct counts addresses
	strangers distinct
	shapes    shapes
	recent    recent
}

// New makes an empty Book that begins at began.
func New(began time.Time) *Book {
	seed := maphash.MakeSeed()
	return &Book{began: began, told: began, believed: 1, seed: seed, shapes: newShapes(seed)}
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

// Running adds running requests. An entry's Cost covers the time since the last call. When the request ends,
// its entry has the sum of these costs as Told.
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

// last adds the duration of a request to the histogram. The entry may stand for several requests.
func (s *sums) last(e *telemetry.Entry) {
	s.kept++
	switch e.Outcome {
	case telemetry.Refused, telemetry.Redirected, telemetry.ClientGone: // these say nothing about the backend's speed
	default:
		if e.Status != 101 && !e.Orphan { // an upgraded connection lasts as long as both sides want
			s.took[e.Group].Add(e.Took.Seconds(), e.Weight)
		}
	}
}

// isWorkedOn reports whether the backend worked on a finished request.
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

// spendLocked adds the use of a request to its page, and counts its client.
func (b *Book) spendLocked(e *telemetry.Entry, u telemetry.Use) {
	address := maphash.Comparable(b.seed, e.Client)
	if e.Group == telemetry.Stranger || e.Group == telemetry.Newcomer {
		b.strangers.add(b.turn, address)
	}
	b.shapes.add(b.turn, e, address, u)
}

// advanceLocked moves the window to the present, and fades or drops older data.
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

// Tick updates the Book with the state of this moment. Call it once a second.
func (b *Book) Tick(now time.Time, m Moment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked(now)
	b.window.current().look(m.Gate.Utilisation)
	b.believeLocked(m.CPUs)
}

// Overview returns which clients use the server, as of the Book's last update. The caller fills in the fields
// that aren't about requests (Release, Mode, Uptime).
func (b *Book) Overview(m Moment) api.OverviewReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, long := b.window.last(recentSeconds)
	reply := api.OverviewReply{
		Version: api.Version, Seconds: recentSeconds, Now: unix(b.told), Gate: m.Gate, Sampled: 1, Wasted: round(wasted(s, long) * b.believed),
		Strangers: api.StrangersRow{Addresses: b.strangers.estimate()}, Use: s.use(),
		CPUs: m.CPUs, Backend: b.backendLocked(s), Places: []api.PlaceRow{},
	}
	for _, p := range m.Places {
		reply.Places = append(reply.Places, api.PlaceRow{Group: p.Group.String(), Shape: p.Shape, Count: p.Count})
	}
	if reply.Use < 0 { // no second was measured yet, so the gate's latest value is shown
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

// believeLocked sets the part of the charged CPU time that requests can really have used. A page that sleeps is
// charged for the worker that it holds, which must not be shown as CPU time. Therefore the sum over all
// requests is limited to the measured use of the CPUs.
func (b *Book) believeLocked(cpus float64) {
	b.believed = 1
	s, long := b.window.last(recentSeconds)
	charged := 0.0
	for _, x := range s.cpu {
		charged += x
	}
	if used := s.use() * cpus * long; used >= 0 && cpus > 0 && charged > used {
		b.believed = used / charged
	}
}

// backendLocked shows how requests to the backend ended in the last seconds. If there were none, it shows the
// last minute, so that a broken site with few visitors doesn't look healthy.
func (b *Book) backendLocked(s *sums) api.BackendRow {
	seconds, all := recentSeconds, s.all()
	if all.AtBackend() == 0 {
		seconds = longest
		s, _ = b.window.last(longest)
		all = s.all()
	}
	n := func(x uint64) int { return int(x) } //nolint:gosec // number of requests in a minute
	return api.BackendRow{
		Seconds: float64(seconds), Requests: n(all.AtBackend()), Down: n(all.Ended[telemetry.BackendDown]),
		Slow: n(all.Ended[telemetry.BackendSlow]), Broke: n(all.Ended[telemetry.BackendBroke]), Errors: n(all.Failed),
	}
}

// unix converts a time to the admin API's format: seconds since 1970.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// wasted returns the wasted CPU time per second. It is limited to the used CPU time: if a request turns out to
// be wasted only at its end, it may have used part of the wasted time before the window.
func wasted(s *sums, long float64) float64 {
	all := 0.0
	for _, x := range s.cpu {
		all += x
	}
	return rate(min(s.wasted, all), long)
}

// rate returns a sum per second, at least 0. A sum can be negative because, if a request was charged too much
// while it ran, the difference is subtracted when it ends.
func rate(sum, seconds float64) float64 { return round(max(0, sum) / seconds) }

// round rounds to four decimal places, the precision of the admin API.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }
