package limiter

import "testing"

// TestFirstOfEqualRank: the lowest rank wins, and among equal ranks the first to arrive. Strangers
// compete by their lowest rank, and their own order decides which of them starts.
func TestFirstOfEqualRank(t *testing.T) {
	of := func(order uint64) *Ticket { return &Ticket{queueEntry: queueEntry{order: order}} }
	early, late := of(1), of(2)
	for _, both := range [][2]*Ticket{{early, late}, {late, early}} {
		c := candidate{}
		c.offer(both[0], 5)
		if c.offer(both[1], 5); c.first() != early {
			t.Error("among equal ranks, the later request starts")
		}
		if c.offer(late, 4); c.first() != late {
			t.Error("the request with the greater rank goes, although it arrived first")
		}
		if c.offer(early, 6); c.first() != late {
			t.Error("the request with the greater rank goes")
		}
		c = candidate{}
		c.offerStrange(both[0], 7, 9)
		if c.offerStrange(both[1], 7, 9); c.strange != early {
			t.Error("among strangers with equal order, the later request starts")
		}
		c = candidate{}
		c.offerStrange(early, 7, 9)
		if c.offerStrange(late, 6, 10); c.strange != late || c.strangeRank != 9 {
			t.Errorf("stranger %d starts, with rank %g", c.strange.order, c.strangeRank)
		}
		if c.offerStrange(early, 8, 3); c.strange != late || c.strangeRank != 3 {
			t.Errorf("stranger %d starts, with rank %g", c.strange.order, c.strangeRank)
		}
		known := of(3)
		if c.offer(known, 2); c.first() != known {
			t.Error("a stranger starts before a lower rank")
		}
		c.t = nil
		if c.offer(known, 4); c.first() != late {
			t.Error("strangers don't compete by their lowest rank")
		}
	}
}
