package sim

import (
	"slices"
	"testing"

	"tempomat/limiter"
)

// lookEach is the time between two looks at the queue, in seconds. No look coincides with a tick of the proxy.
const lookEach = 0.37

// foresight compares the reports about waiting requests with the events that follow.
type foresight struct {
	t     *testing.T
	proxy *proxy
	told  map[*request]limiter.Outlook // outlooks at the last look; empty once a request has started
	next  map[string]int               // by kind of client: how often a request of that kind was the first to start after a look
	right map[string]int               // how often, of these, no request was reported to go before it
	why   map[limiter.Barrier]int
	gate  limiter.GateState // at the last look
	kept  int               // requests that started next, although they were reported to lack room and no room had been added
}

func (f *foresight) look() {
	p := f.proxy
	f.gate = p.limiter.GateState()
	f.told = map[*request]limiter.Outlook{}
	for i, o := range p.limiter.Outlooks(p.time(), tickets(p.waiting)) {
		if !o.Waits {
			f.t.Errorf("%.2f s: a waiting request is reported as not waiting", p.now)
		}
		if o.Barrier == 0 {
			f.t.Errorf("%.2f s: no reason is reported for a request that waits", p.now)
		}
		f.told[p.waiting[i]] = o
		f.why[o.Barrier]++
	}
	if len(f.told) > 0 && !f.anyFirst() {
		f.t.Errorf("%.2f s: %d requests wait, but none is reported as the next", p.now, len(f.told))
	}
}

func (f *foresight) anyFirst() bool {
	for _, o := range f.told {
		if o.Before == 0 {
			return true
		}
	}
	return false
}

// went records a request that goes to the backend. Only the first after a look counts.
func (f *foresight) went(r *request) {
	o, ok := f.told[r]
	if !ok {
		return
	}
	f.told = nil
	if f.next[r.client.Kind]++; o.Before == 0 {
		f.right[r.client.Kind]++
	}
	if o.Barrier == limiter.NoRoom && !f.roomier() {
		f.kept++
	}
}

// roomier reports whether there is more room than at the last look: fewer requests compute at some size, not
// counting the one that has just started, or more may compute.
func (f *foresight) roomier() bool {
	now, more := f.proxy.limiter.GateState(), 0
	for i, n := range now.Computing {
		if n < f.gate.Computing[i] {
			return true
		}
		more += n - f.gate.Computing[i]
	}
	return more != 1 || now.Room > f.gate.Room
}

func tickets(of []*request) (all []*limiter.Ticket) {
	for _, r := range of {
		all = append(all, r.Ticket())
	}
	return all
}

// TestOutlooksComeTrue: the next request to start is one that was reported to have none before it, unless new
// requests or answers have changed the order since. This is nearly always true, for people as well as for
// crawlers. A minute with one seed proves nothing, so all minutes are judged together.
func TestOutlooksComeTrue(t *testing.T) {
	const rightly, ofEach, seeds = 0.88, 0.8, 5
	for name, why := range map[string][]limiter.Barrier{
		"crawl1":        {limiter.BehindOwn, limiter.NoRoom},
		"dist120":       {limiter.NoRoom},
		"lightflood":    {limiter.BehindOwn, limiter.NoRoom, limiter.RoomForOthers},
		"res-flat-10/s": {limiter.NoRoom},
		"mixed":         {limiter.BehindOwn, limiter.NoRoom, limiter.CostUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := append(Scenarios(), strangersOfFlatSites()...)
			s := all[slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })]
			f := &foresight{t: t, next: map[string]int{}, right: map[string]int{}, why: map[limiter.Barrier]int{}}
			for seed := range uint64(seeds) {
				w := newWorld(t, 1+seed, s, limiter.Fair)
				f.proxy, f.told = w.proxy, nil
				w.proxy.went = f.went
				w.every(lookEach, f.look)
				w.Run(s.Clients(), Attack, Attack+60)
			}
			next, right := 0, 0
			for kind, n := range f.next {
				next, right = next+n, right+f.right[kind]
				if n >= 10 && float64(f.right[kind]) < ofEach*float64(n) {
					t.Errorf("of the requests of %s, %d of %d went next as reported", kind, f.right[kind], n)
				}
			}
			if name == "res-flat-10/s" && f.next["new"] < 5 {
				t.Errorf("only %d newcomers went next", f.next["new"])
			}
			if float64(f.kept) > (1-rightly)*float64(next) {
				t.Errorf("%d of %d requests went, although the reported reason hadn't changed", f.kept, next)
			}
			if next < 30 || float64(right) < rightly*float64(next) {
				t.Errorf("%d of %d requests went next as reported, want %.0f %%: %v of %v", right, next, 100*rightly, f.right, f.next)
			}
			for _, b := range why {
				if f.why[b] == 0 {
					t.Errorf("barrier %d was never reported", b)
				}
			}
		})
	}
}
