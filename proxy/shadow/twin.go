package shadow

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/replay"
	"tempomat/proxy/telemetry"
)

// Plan is what would act.
type Plan struct {
	Mode      string         // fair, cap, cooperative
	Policy    limiter.Policy // with nothing in shadow
	TableSize int            // keys that its limiter remembers
	CPUs      float64        // of the backend, above 0
	Workers   func() int     // of the backend, as far as the sidecar knows
	Measures  bool           // the sidecar sees the backend's CPU use
	// Told says that costs are told by the backend: to wait for a CPU counts as being idle then.
	Told bool
	// Newcomers tells who would be redirected; nil: nobody.
	Newcomers newcomers
	// Known are the clients that are no strangers to the sidecar; nil: nobody is known.
	Known *limiter.Known
}

// Twin is the second limiter, and what it found. Its methods may be called concurrently. It
// implements telemetry.Recorder. Whoever has one calls Play some times a second.
type Twin struct {
	intake
	hours int64

	mu     sync.Mutex // guards the following
	plan   *Plan      // nil: nothing is in shadow
	window window
	live   *replay.Live // nil: no request came since the plan is in force
	buffer []seen
	costs  costs
	left   leavers
	sent   map[netip.Addr]bool // who would have been redirected, and has a pass now
	until  time.Time           // requests that came until then are counted
	told   uint64              // of lost, how many are counted in hours
	open   *hour
	over   []*hour // the oldest first
	totals map[string]*[wouldBe]uint64
}

// New makes a Twin that keeps so many hours, at least 1, and shadows nothing.
func New(hours int) *Twin {
	return &Twin{hours: int64(hours), sent: make(map[netip.Addr]bool), totals: make(map[string]*[wouldBe]uint64)}
}

// SetPlan says what is in shadow from now on; nil: nothing is.
func (t *Twin) SetPlan(p *Plan) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.plan
	t.plan = p
	t.on.Store(p)
	switch {
	case was == nil:
	case p == nil || !was.continues(p):
		t.plan = was // what is under way ends as it had it
		t.flushLocked()
		t.live, t.plan = nil, p
		clear(t.sent)
	case t.live != nil:
		t.live.SetPolicy(p.Policy)
	}
}

// continues tells whether the limiter can go on with another plan.
func (p *Plan) continues(next *Plan) bool {
	return p.Mode == next.Mode && p.CPUs == next.CPUs && p.TableSize == next.TableSize && p.Measures == next.Measures
}

// flushLocked reckons with all that there is.
func (t *Twin) flushLocked() {
	for t.takeLocked(); len(t.window.heap) > 0; t.takeLocked() {
		t.playLocked(time.Time{}, true)
	}
	if t.live != nil {
		t.live.Drain()
	}
}

// Play takes in what there is, and reckons up to a Window before now.
func (t *Twin) Play(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plan == nil {
		return
	}
	t.takeLocked()
	t.playLocked(now.Add(-patience), false)
}

// Flush reckons with all requests that are over.
func (t *Twin) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plan != nil {
		t.flushLocked()
	}
}

// takeLocked takes in what requests left, as long as there is room for it.
func (t *Twin) takeLocked() {
	for i := range t.shards {
		if len(t.window.heap) > mostWaiting {
			return
		}
		t.buffer = t.shards[i].take(t.buffer)
		for j := range t.buffer {
			t.costs.served.add(&t.buffer[j])
			t.left.add(&t.buffer[j])
			t.window.put(&t.buffer[j])
		}
		clear(t.buffer)
	}
}

// mostAtOnce is with how many requests the Twin reckons before somebody else may ask it.
const mostAtOnce = 4096

// playLocked has the requests come that came until then, some of them at a time, or all.
func (t *Twin) playLocked(until time.Time, all bool) {
	if t.live != nil && t.plan.Workers != nil {
		t.live.SetWorkers(t.plan.Workers())
	}
	for n := 0; all || n < mostAtOnce; n++ {
		if all && len(t.window.heap) > 0 {
			until = t.window.heap[0].came
		}
		s := t.window.next(until)
		if s == nil {
			if !all && t.live != nil {
				t.live.Advance(until)
			}
			return
		}
		t.arriveLocked(s)
	}
}

// arriveLocked has a request come.
func (t *Twin) arriveLocked(s *seen) {
	if t.live == nil {
		t.beginLocked(s.came)
	}
	late := s.came.Before(t.live.Now().Add(-time.Second))
	t.live.Advance(s.came)
	h := t.hourLocked(t.live.Now())
	if late {
		h.Late++
	}
	h.was(s)
	t.until = t.live.Now()
	switch {
	case s.redirected: // it came again
		t.window.give(s)
		return
	case s.limit != "":
		reason := "limit " + s.limit
		h.acted(s, wouldRefuse, 0, reason)
		t.countLocked(reason, wouldRefuse)
		t.window.give(s)
		return
	}
	s.who.Keep(t.hasLocked)
	passed := s.group == telemetry.Newcomer || t.sent[s.who.Client]
	if s.stay > 0 {
		if slower := float64(s.beside+1) / t.plan.CPUs; t.plan.Told && s.exact && slower > 1 { // it waited for a CPU, too
			s.idle = max(0, min(s.idle, s.stay-time.Duration(float64(s.asks)*slower)))
		}
		s.asks, s.idle = t.costs.of(s, t.crowdedLocked(s))
	} else {
		s.asks = t.costs.unserved(s)
	}
	t.live.Arrive(&replay.Request{
		Who: s.who, Target: string(s.target[:s.n]), Came: s.came, Status: s.status,
		Passed: passed, Eligible: s.eligible && !passed,
		CPU: s.asks, Idle: min(s.idle, patience), Patience: t.left.patience(s), Note: s,
	})
}

// hasLocked tells whether the policy has a class: one that acts otherwise may have none of
// sessions.
func (t *Twin) hasLocked(class string) bool {
	return slices.ContainsFunc(t.plan.Policy.Classes, func(c limiter.ClassInfo) bool { return c.Name == class })
}

// crowdedLocked tells whether a request was at the backend with so many others that some of
// them waited for a worker.
func (t *Twin) crowdedLocked(s *seen) bool {
	workers := usualWorkers
	if t.plan.Workers != nil {
		workers = max(1, t.plan.Workers())
	}
	return s.beside >= workers
}

// mostSent is of how many clients it is remembered that they would have a pass.
const mostSent = 1 << 13

// endLocked is told what would have become of a request.
func (t *Twin) endLocked(now time.Time, r *replay.Request, f replay.Fate) {
	s := r.Note.(*seen)
	if f.Redirected {
		if len(t.sent) >= mostSent {
			clear(t.sent)
		}
		t.sent[s.who.Client] = true
		t.countLocked(busy, wouldRedirect)
	}
	if w, reason := t.hourLocked(now).fate(s, &f); w != wouldServe {
		t.countLocked(reason, w)
	}
	t.window.give(s)
}

func (t *Twin) countLocked(reason string, w would) {
	n := t.totals[reason]
	if n == nil {
		if len(t.totals) >= mostNames {
			return
		}
		n = new([wouldBe]uint64)
		t.totals[reason] = n
	}
	n[w]++
}

// usualWorkers is how many the backend has if nothing is known of them.
const usualWorkers = 16

// beginLocked makes the limiter, as the first request is there.
func (t *Twin) beginLocked(epoch time.Time) {
	p := t.plan
	workers := usualWorkers
	if p.Workers != nil {
		workers = max(1, p.Workers())
	}
	setup := replay.Setup{Policy: p.Policy, TableSize: p.TableSize, CPUs: p.CPUs, Workers: workers, Measures: p.Measures}
	setup.Rules.Meter = cpuaccount.NewMeter(cpuaccount.Header, p.CPUs, 0)
	t.live = replay.NewLive(epoch, setup, t.endLocked)
	if p.Known != nil {
		if b, err := p.Known.AppendBinary(nil); err == nil {
			_ = t.live.Known().UnmarshalBinary(b) // else nobody is known
		}
	}
}

// hourLocked is the one of a time.
func (t *Twin) hourLocked(now time.Time) *hour {
	at := now.Unix() - now.Unix()%secondsOfHour
	if h := t.open; h == nil || at > h.At || t.plan.Mode != h.Mode {
		if h != nil {
			h.end()
			t.over = append(t.over, h)
		}
		t.open = &hour{At: at, Mode: t.plan.Mode, tally: newTally()}
		t.over = slices.DeleteFunc(t.over, func(h *hour) bool { return h.At <= at-t.hours*secondsOfHour })
		if most := int(t.hours) + mostChanges; len(t.over) > most {
			t.over = slices.Delete(t.over, 0, len(t.over)-most)
		}
	}
	lost := t.lost.Load()
	t.open.Lost += lost - t.told
	t.told = lost
	return t.open
}

// secondsOfHour is one, and mostChanges how many more hours are kept as modes changed in them.
const (
	secondsOfHour = 3600
	mostChanges   = 24
)
