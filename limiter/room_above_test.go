package limiter

import "testing"

// TestTheFirstOfThoseLookedAt: the least rank, and of equal ones who came first; of strangers their
// own order decides, and their least rank competes for them.
func TestTheFirstOfThoseLookedAt(t *testing.T) {
	of := func(order uint64) *Ticket { return &Ticket{queueEntry: queueEntry{order: order}} }
	early, late := of(1), of(2)
	for _, both := range [][2]*Ticket{{early, late}, {late, early}} {
		c := candidate{}
		c.offer(both[0], 5)
		if c.offer(both[1], 5); c.first() != early {
			t.Error("of one rank the later one goes")
		}
		if c.offer(late, 4); c.first() != late {
			t.Error("the greater rank goes")
		}
		if c.offer(early, 6); c.first() != late {
			t.Error("a greater rank goes")
		}
		c = candidate{}
		c.offerStrange(both[0], 7, 9)
		if c.offerStrange(both[1], 7, 9); c.strange != early {
			t.Error("of strangers of one order the later one goes")
		}
		c = candidate{}
		c.offerStrange(early, 7, 9)
		if c.offerStrange(late, 6, 10); c.strange != late || c.strangeRank != 9 {
			t.Errorf("of strangers %d goes, by a rank of %g", c.strange.order, c.strangeRank)
		}
		if c.offerStrange(early, 8, 3); c.strange != late || c.strangeRank != 3 {
			t.Errorf("of strangers %d goes, by a rank of %g", c.strange.order, c.strangeRank)
		}
		known := of(3)
		if c.offer(known, 2); c.first() != known {
			t.Error("a stranger goes before who ranks less")
		}
		c.t = nil
		if c.offer(known, 4); c.first() != late {
			t.Error("strangers do not compete by their least rank")
		}
	}
}
