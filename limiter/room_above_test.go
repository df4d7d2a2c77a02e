package limiter

import "testing"

// TestWhoMakesRoomForWhomAbove: nobody goes whose turn is after that of who starves; strangers make room
// for what is overdue, and if they are not light for the known whose turn is before theirs.
func TestWhoMakesRoomForWhomAbove(t *testing.T) {
	for name, x := range map[string]struct {
		w       waitsAbove
		r       rung
		rank    float64
		holdsUp bool
		before  bool
	}{
		"nobody waits":             {waitsAbove{}, 3, 5, false, false},
		"who starves is before":    {waitsAbove{starving: true, first: 4}, 3, 5, true, false},
		"who starves is it":        {waitsAbove{starving: true, first: 5}, 3, 5, false, false},
		"who starves is after":     {waitsAbove{starving: true, first: 6}, 3, 5, false, false},
		"something is overdue":     {waitsAbove{overdue: true}, lightRung, 5, false, true},
		"somebody known is before": {waitsAbove{known: true, within: 4}, lightRung + 1, 5, false, true},
		"of the same rank":         {waitsAbove{known: true, within: 5}, lightRung + 1, 5, false, false},
		"but it is light":          {waitsAbove{known: true, within: 4}, lightRung, 5, false, false},
		"one of these computes":    {waitsAbove{within: 4}, lightRung + 1, 5, false, false},
	} {
		if h, b := x.w.holdsUp(x.rank), x.w.before(x.r, x.rank); h != x.holdsUp || b != x.before {
			t.Errorf("%s: it holds up %t, goes before %t", name, h, b)
		}
	}
}

// TestTheFirstOfThoseLookedAt: the least rank, and of equal ones who came first; of strangers their
// own order decides, and their least rank competes for them.
func TestTheFirstOfThoseLookedAt(t *testing.T) {
	of := func(order uint64) *Ticket { return &Ticket{queueEntry: queueEntry{order: order}} }
	early, late := of(1), of(2)
	for _, both := range [][2]*Ticket{{early, late}, {late, early}} {
		var c candidate
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
