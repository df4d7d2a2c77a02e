package limiter

import (
	"cmp"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestVerdictOfStartedRequests: the verdict says how long and why a request waited. A wait in shadow is reported
// only if the request didn't really wait.
func TestVerdictOfStartedRequests(t *testing.T) {
	key := Key{Class: "slash32", ID: "a"}
	would := Would{key, 9 * second, Refuse}
	told := Verdict{Wait: 9 * second, Key: key, Reason: Debt, Shadow: true, Action: Refuse, Would: would}
	capped := Verdict{Key: key, Reason: Debt}
	for name, x := range map[string]struct {
		was    Verdict
		waited time.Duration
		beyond bool
		want   Verdict
	}{
		"goes at once":                   {Verdict{}, 0, false, Verdict{}},
		"waited":                         {Verdict{}, second, false, Verdict{Wait: second, Reason: Busy}},
		"would have had to wait":         {Verdict{}, 0, true, Verdict{Reason: Busy, Shadow: true}},
		"waited for a debt":              {capped, second, false, Verdict{Wait: second, Key: key, Reason: Debt}},
		"debt was paid meanwhile":        {capped, 0, false, capped},
		"shadow would have refused it":   {told, 0, false, Verdict{Wait: 9 * second, Key: key, Reason: Debt, Shadow: true, Would: would}},
		"in shadow, but waited for room": {told, second, false, Verdict{Wait: second, Reason: Busy, Would: would}},
	} {
		r := &Ticket{decision: decision{verdict: x.was}, queueEntry: queueEntry{asked: time.Hour, beyond: x.beyond, costMultiplier: 3, overShare: true}}
		x.want.CostMultiplier, x.want.Known, x.want.Ahead = 3, true, true
		testkit.Same(t, x.want, r.goAhead(time.Hour+x.waited), "%s", name)
	}
}

// TestSitesLeaveRoom: once as many requests of its size or shorter, or of other sites, compute as there are CPUs, a site
// that has used more than its share leaves room for the others' requests that compute.
func TestSitesLeaveRoom(t *testing.T) {
	for name, x := range map[string]struct {
		computing    int     // of the site, on the rung of 400 ms
		used         float64 // CPU-seconds recently used, of a share of ten
		others, hold int     // requests of other sites that compute, and that only hold a worker
		all          bool    // the site's share is the whole machine, twenty CPU-seconds
		r            rung
		want         bool
	}{
		"a CPU is idle":                         {0, 20, 1, 0, false, 2, false},
		"used more than its share":              {1, 10.1, 1, 0, false, 2, true},
		"used more, others hold workers":        {2, 20, 0, 1, false, 2, false},
		"used more, its longer request runs":    {1, 20, 1, 0, false, 1, false},
		"used more, others use all CPUs":        {0, 20, 2, 0, false, 1, true},
		"used just its share":                   {1, 10, 1, 0, false, 2, false},
		"used less than its share":              {1, 9, 1, 0, false, 2, false},
		"used less, share is the whole machine": {1, 19.9, 1, 0, true, 2, false},
	} {
		g := shaped()
		g.divided, g.clock = true, clock{active: 2}
		s := &g.home
		s.among, s.used = flow{share: 1}, use{sum: x.used}
		if x.all {
			s.among.share = g.clock.active
		}
		g.load.computing[2], g.load.computing[5], s.computing[2] = x.computing, x.others, x.computing
		s.busy, g.busy = x.computing, x.computing+x.others+x.hold
		testkit.Same(t, x.want, g.isHeldBack(0, s, x.r), "%s: held back", name)
		if g.divided = false; g.isHeldBack(0, s, x.r) {
			t.Errorf("%s: there are no other sites", name)
		}
	}
}

// TestMemoryOfTickets: a ticket's memory is reused only if nothing can refer to the ticket any more.
func TestMemoryOfTickets(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*Ticket)
		want   bool
	}{
		"never waited":                      {func(*Ticket) {}, true},
		"the owner waited for the decision": {func(x *Ticket) { x.decidedAtOnce = false }, false},
		"was in the waiting room":           {func(x *Ticket) { x.waitEntry = new(waitEntry) }, false},
		"at the gate":                       {func(x *Ticket) { x.client = new(client) }, false},
	} {
		r := &Ticket{decision: decision{decidedAtOnce: true}}
		if x.change(r); (r.Emptied() != nil) != x.want {
			t.Errorf("%s: the ticket's memory is reused: %t", name, !x.want)
		}
	}
}

// TestRoomFollowsAtItsBounds: the room grows by a quarter while CPUs are idle and a request waits for one, up
// to the number of workers. It shrinks by a quarter while the CPUs are full, down to one request per CPU.
func TestRoomFollowsAtItsBounds(t *testing.T) {
	for name, x := range map[string]struct {
		n     int
		there int  // requests that compute; 0: eleven
		again bool // there was too little room at the last measurement
		use   float64
		wants bool
		fixed bool
		want  int
	}{
		"a request waits, CPUs idle":     {n: 4, use: 0.5, wants: true, fixed: false, want: 5},
		"grows by a quarter":             {n: 8, use: 0.5, wants: true, fixed: false, want: 10},
		"half of the CPUs idle":          {n: 6, use: 0.44, wants: true, want: 7},
		"half of the CPUs idle, again":   {n: 6, again: true, use: 0.44, wants: true, want: 12},
		"just half of 90 % used, again":  {n: 6, again: true, use: idleBelow / 2, wants: true, want: 7},
		"grows up to the workers":        {n: 14, there: 14, use: 0.5, wants: true, fixed: false, want: 16},
		"no request waits":               {n: 4, use: 0.5, wants: false, fixed: false, want: 4},
		"fewer compute than allowed":     {n: 4, there: 3, use: 0.5, wants: true, want: 4},
		"as many compute as allowed":     {n: 4, there: 4, use: 0.5, wants: true, want: 5},
		"nearly full":                    {n: 4, use: idleBelow, wants: true, fixed: false, want: 4},
		"just not full":                  {n: 4, use: fullAbove, wants: true, fixed: false, want: 4},
		"full":                           {n: 4, use: 0.98, wants: true, fixed: false, want: 3},
		"full, shrinks by a quarter":     {n: 8, use: 0.98, wants: false, fixed: false, want: 6},
		"full, one per CPU is the least": {n: 2, use: 0.98, wants: true, fixed: false, want: 2},
		"idle, fixed":                    {n: 4, use: 0.5, wants: true, fixed: true, want: 4},
		"full, fixed":                    {n: 4, use: 0.98, wants: true, fixed: true, want: 4},
	} {
		g := shaped()
		g.limits.slots, g.limits.fixed, g.ranking.memory = x.n, x.fixed, 120
		g.load.computing[3], g.busy = cmp.Or(x.there, 11), 16 // no more requests may start
		g.load.held[3], g.home.clock.active = 11, 1
		if x.wants {
			g.contending = []*site{&g.home}
			r := &Ticket{request: request{sure: true}, queueEntry: queueEntry{level: 3, site: &g.home, client: new(client), flow: &flow{share: 1}}}
			g.home.queues[3].underShare.push(r)
			g.all.n = 1
		}
		g.roomShort = x.again
		if g.measure(time.Second, x.use); g.limits.slots != x.want || g.utilisation != x.use {
			t.Errorf("%s: room for %d becomes %d, want %d", name, x.n, g.limits.slots, x.want)
		}
	}
}
