package limiter

import (
	"cmp"
	"testing"
	"time"
)

// TestWhatIsToldOfWhoGoes: how long it waited, and why; what it would have waited for in shadow only if it did not.
func TestWhatIsToldOfWhoGoes(t *testing.T) {
	key := Key{Class: "slash32", ID: "a"}
	told := Verdict{Wait: 9 * second, Key: key, Reason: Debt, Shadow: true, Action: Refuse}
	capped := Verdict{Key: key, Reason: Debt}
	for name, x := range map[string]struct {
		was    Verdict
		waited time.Duration
		beyond bool
		want   Verdict
	}{
		"it goes at once":            {Verdict{}, 0, false, Verdict{}},
		"it waited":                  {Verdict{}, second, false, Verdict{Wait: second, Reason: Busy}},
		"it would have had to wait":  {Verdict{}, 0, true, Verdict{Reason: Busy, Shadow: true}},
		"it waited for a debt":       {capped, second, false, Verdict{Wait: second, Key: key, Reason: Debt}},
		"it owed nothing any more":   {capped, 0, false, capped},
		"it would have been refused": {told, 0, false, Verdict{Wait: 9 * second, Key: key, Reason: Debt, Shadow: true}},
		"it did wait for something":  {told, second, false, Verdict{Wait: second, Reason: Busy}},
	} {
		r := &Ticket{decision: decision{verdict: x.was}, queueEntry: queueEntry{asked: time.Hour, beyond: x.beyond, costMultiplier: 3, overShare: true}}
		x.want.CostMultiplier, x.want.Known, x.want.Ahead = 3, true, true
		if got := r.goAhead(time.Hour + x.waited); got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
}

// TestSitesLeaveRoom: one that had its share, and is ahead of another one that waits for room, leaves it, once
// as many compute as there are CPUs.
func TestSitesLeaveRoom(t *testing.T) {
	for name, x := range map[string]struct {
		computing   int
		used, ahead float64 // CPU-seconds lately, of ten as its share; on the clock
		others      int     // requests of others at the backend
		all         bool    // its share is all of the machine, twenty CPU-seconds
		want        bool
	}{
		"a CPU is idle":              {1, 20, 9, 1, false, false},
		"it had more than its share": {2, 10.1, 0, 1, false, true},
		"but nobody else is there":   {2, 20, 0, 0, false, false},
		"it had its share":           {2, 10, 0, 1, false, false},
		"it had less":                {2, 9, 0, 1, false, false},
		"of all, it had less":        {2, 19.9, 0, 1, true, false},
	} {
		g := shaped()
		g.divided, g.clock = true, clock{systemVirtualTime: 100, active: 2}
		s := &g.home
		s.among, s.used = flow{virtualTime: 100 + x.ahead, share: 1}, use{sum: x.used}
		if x.all {
			s.among.share = g.clock.active
		}
		g.load.computing[2], s.busy, g.busy = x.computing, x.computing, x.computing+x.others
		if got := g.isHeldBack(0, s); got != x.want {
			t.Errorf("%s: it leaves room: %t", name, got)
		}
		if g.divided = false; g.isHeldBack(0, s) {
			t.Errorf("%s: there are no others", name)
		}
	}
}

// TestMemoryOfTickets: that of one is used again which nobody can know any more.
func TestMemoryOfTickets(t *testing.T) {
	for name, x := range map[string]struct {
		change func(*Ticket)
		want   bool
	}{
		"it never waited":    {func(*Ticket) {}, true},
		"somebody waits":     {func(x *Ticket) { x.decidedAtOnce = false }, false},
		"it was in the room": {func(x *Ticket) { x.waitEntry = new(waitEntry) }, false},
		"the gate knows it":  {func(x *Ticket) { x.client = new(client) }, false},
	} {
		r := &Ticket{decision: decision{decidedAtOnce: true}}
		if x.change(r); (r.Emptied() != nil) != x.want {
			t.Errorf("%s: its memory is used again: %t", name, !x.want)
		}
	}
}

// TestRoomFollowsAtItsBounds: it grows by a quarter while CPUs are idle and somebody waits for one, up to what long requests may hold;
// it shrinks as much while they are full, down to one for each.
func TestRoomFollowsAtItsBounds(t *testing.T) {
	for name, x := range map[string]struct {
		n     int
		there int // that compute; 0: eleven
		use   float64
		wants bool
		fixed bool
		want  int
	}{
		"somebody waits, CPUs idle": {n: 4, use: 0.5, wants: true, fixed: false, want: 5},
		"by a quarter":              {n: 8, use: 0.5, wants: true, fixed: false, want: 10},
		"up to the workers":         {n: 14, there: 14, use: 0.5, wants: true, fixed: false, want: 16},
		"nobody waits":              {n: 4, use: 0.5, wants: false, fixed: false, want: 4},
		"fewer compute than may":    {n: 4, there: 3, use: 0.5, wants: true, want: 4},
		"just as many":              {n: 4, there: 4, use: 0.5, wants: true, want: 5},
		"nearly full":               {n: 4, use: idleBelow, wants: true, fixed: false, want: 4},
		"just not full":             {n: 4, use: fullAbove, wants: true, fixed: false, want: 4},
		"full":                      {n: 4, use: 0.98, wants: true, fixed: false, want: 3},
		"full, by a quarter":        {n: 8, use: 0.98, wants: false, fixed: false, want: 6},
		"full, one for each":        {n: 2, use: 0.98, wants: true, fixed: false, want: 2},
		"idle, fixed":               {n: 4, use: 0.5, wants: true, fixed: true, want: 4},
		"full, fixed":               {n: 4, use: 0.98, wants: true, fixed: true, want: 4},
	} {
		g := shaped()
		g.limits.slots, g.limits.fixed, g.ranking.memory = x.n, x.fixed, 120
		g.load.computing[3], g.busy = cmp.Or(x.there, 11), 16 // no more may go
		g.load.held[3], g.home.clock.active = 11, 1
		if x.wants {
			g.contending = []*site{&g.home}
			r := &Ticket{request: request{sure: true}, queueEntry: queueEntry{level: 3, site: &g.home, client: new(client), flow: &flow{share: 1}}}
			g.home.queues[3].underShare.push(r)
			g.all.n = 1
		}
		if g.measure(time.Second, x.use); g.limits.slots != x.want || g.utilisation != x.use {
			t.Errorf("%s: room for %d becomes %d, want %d", name, x.n, g.limits.slots, x.want)
		}
	}
}
