package limiter

import (
	"math"
	"testing"
)

// TestRankOfAHead: the rank is the clock at the request's arrival, plus the client's lead, plus the cost
// divided by the client's share and multiplied by the factor for debt. A client with a lead above half a
// CPU-second is over its share.
func TestRankOfAHead(t *testing.T) {
	const now, guess = 10.0, 0.1 // the guess counts for 0.2 on the clock, and for twice that in the rank
	for name, x := range map[string]struct {
		virtualTime float64
		rank        float64
		ahead       bool
	}{
		"at the clock":            {now, now + 0.4, false},
		"behind the clock":        {now - 3, now + 0.4, false},
		"half a CPU-second ahead": {now + 1, now + 1.4, false},
		"ahead":                   {now + 1.01, now + 1.41, true},
		"far ahead":               {now + 50, now + 50.4, true},
	} {
		g := shaped()
		g.ranking.memory, g.home.clock = 120, clock{systemVirtualTime: now, active: 1}
		r := &Ticket{charge: charge{guess: guess}, queueEntry: queueEntry{site: &g.home, flow: &flow{share: 0.5, virtualTime: x.virtualTime}, clock: now}}
		if g.enqueueHead(0, r); math.Abs(r.rank-x.rank) > 1e-9 || r.overShare != x.ahead || r.costMultiplier != baseMultiplier {
			t.Errorf("%s: rank %g, ahead %t; want %g, %t", name, r.rank, r.overShare, x.rank, x.ahead)
		}
	}
}
