package limiter

import (
	"testing"
	"time"

	"tempomat/limiter/account"
)

// TestCountsOfWaitingRequests: the outlook says how many requests of the barrier's kind there are, and how
// many there may be.
func TestCountsOfWaitingRequests(t *testing.T) {
	for name, x := range map[string]struct {
		set        func(*gate, *Ticket)
		level      level
		want       Barrier
		have, most int
	}{
		"no room": {func(g *gate, _ *Ticket) { g.load.computing[1], g.load.computing[3] = 1, 2 }, 3, NoRoom, 3, 3},
		"room for clients within their share": {func(g *gate, x *Ticket) {
			g.utilisation, g.load.computing[1], g.load.overShare[1], x.overShare = 0.5, 2, 1, true
		}, 2, RoomForOthers, 2, 2},
		"no worker for a long one":  {func(g *gate, _ *Ticket) { g.busy, g.load.held[4], g.load.held[3] = 15, 12, 3 }, waitsAt(4), NoWorker, 15, 15},
		"no worker for a short one": {func(g *gate, _ *Ticket) { g.busy, g.workers.configured = 16, 16; g.load.held[0] = 16 }, 0, NoWorker, 16, 16},
		"no worker for a light one": {func(g *gate, _ *Ticket) { g.busy, g.workers.configured = 16, 16; g.load.held[0] = 16 }, level(lightRung), NoWorker, 16, 16},
		"no room for the longest":   {func(g *gate, _ *Ticket) { g.load.computing[5] = 2 }, rungs - 1, NoRoom, 2, 2},
		"strangers hold their part": {func(g *gate, x *Ticket) { x.stranger, g.home.strangerHeld = true, 5 }, waitsAt(4), StrangersHold, 5, 5},
		"its key holds its part":    {func(_ *gate, x *Ticket) { x.reservations[0].Bucket.Value.holds = 6 }, waitsAt(4), KeyHolds, 6, 6},
	} {
		g := shaped()
		g.utilisation = 1
		g.home.clock = clock{systemVirtualTime: 10, active: 1}
		g.home.strangers.share, g.home.name = 0.5, "a"
		r := &Ticket{
			request: request{sure: true, likelyIdle: 9}, charge: charge{n: 1, guess: 0.3},
			queueEntry: queueEntry{level: x.level, site: &g.home, client: new(client), flow: &flow{virtualTime: 14, share: 0.5}, applied: 2, asked: time.Minute},
		}
		r.reservations[0] = reservation{Bucket: new(bucket), Terms: &account.Terms{Workers: 0.5}}
		x.set(g, r)
		g.home.queues[x.level].underShare.push(r)
		var o Outlook
		g.outlook(2*time.Minute, r, &o)
		if o.Barrier != x.want || o.Have != x.have || o.Most != x.most {
			t.Errorf("%s: barrier %d, %d of %d; want %d, %d of %d", name, o.Barrier, o.Have, o.Most, x.want, x.have, x.most)
		}
		if o.Lead != 1 || o.Waited != time.Minute || o.Guess != 300*time.Millisecond || o.Before != 0 || !o.Waits || o.Site != "a" {
			t.Errorf("%s: %+v", name, o)
		}
		if r := x.level.rung(); r == rungs-1 && o.Size != 0 || r < rungs-1 && o.Size != seconds(r.most()) {
			t.Errorf("%s: the size is up to %v", name, o.Size)
		}
	}
}
