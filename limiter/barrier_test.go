package limiter

import (
	"testing"

	"tempomat/limiter/account"
)

// TestBarrierOfCompetingRequests: the barrier of the head of a lane is the first obstacle that next would find.
// Strangers compete by their common turn, not by their own place.
func TestBarrierOfCompetingRequests(t *testing.T) {
	const now = 1000.0
	behind := func(g *gate) { // another site has waiting requests, and this one has used twice its share
		g.divided, g.clock.active, g.home.among.share, g.home.used = true, 2, 1, use{sum: 20}
		g.load.computing[4], g.busy, g.home.busy = 2, 3, 2
	}
	for name, x := range map[string]struct {
		level level
		ahead bool // its client is over its share
		set   func(*gate, *Ticket)
		want  Barrier
	}{
		"only others go before it":          {level: 3, want: Turn},
		"unknown cost, key holds its part":  {level: fresh, set: func(_ *gate, r *Ticket) { r.reservations[0].Bucket.Value.holds = 5 }, want: CostUnknown},
		"known cost, key holds its part":    {level: 3, set: func(_ *gate, r *Ticket) { r.reservations[0].Bucket.Value.holds = 5 }, want: KeyHolds},
		"its site is ahead":                 {level: level(lightRung) + 1, set: func(g *gate, _ *Ticket) { behind(g) }, want: SiteAhead},
		"hardly computes":                   {level: waitsAt(3), want: Turn},
		"hardly computes, all workers busy": {level: waitsAt(3), set: func(g *gate, _ *Ticket) { g.busy = 16 }, want: NoWorker},
		"computes, all workers busy":        {level: 3, set: func(g *gate, _ *Ticket) { g.busy = 16 }, want: NoWorker},
		"the others use the CPUs":           {level: 3, ahead: true, set: func(g *gate, _ *Ticket) { g.usedUnderShare = use{sum: 30} }, want: LeavesCPU},
		"no room":                           {level: 3, set: func(g *gate, _ *Ticket) { g.load.computing[3] = 2 }, want: NoRoom},
		"no room, unknown cost":             {level: fresh, set: func(g *gate, _ *Ticket) { g.load.computing[3] = 2 }, want: CostUnknown},
		"only a longer rung is full":        {level: 2, set: func(g *gate, _ *Ticket) { g.load.computing[3] = 2 }, want: Turn},
	} {
		g := shaped()
		g.utilisation = 1
		g.home.clock = clock{systemVirtualTime: now, active: 2}
		g.home.strangers.share = 0.5
		r := &Ticket{
			request: request{sure: x.level != fresh}, charge: charge{n: 1, guess: 0.3},
			queueEntry: queueEntry{level: x.level, overShare: x.ahead, site: &g.home, client: new(client), flow: &flow{share: 0.5}},
		}
		r.reservations[0] = reservation{Bucket: new(bucket), Terms: &account.Terms{Workers: 0.5}}
		q := &g.home.queues[x.level]
		if x.ahead {
			q.overShare.push(r)
		} else {
			q.underShare.push(r)
		}
		if x.set != nil {
			x.set(g, r)
		}
		if got, key := g.barrier(0, r); got != x.want || key != 0 {
			t.Errorf("%s: barrier %d of key %d, want %d", name, got, key, x.want)
		}
	}
}
