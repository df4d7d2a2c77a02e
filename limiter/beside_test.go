package limiter

import "testing"

// TestPartBesideOpenSites: as many workers as the share makes of those that go as they come, at least what
// these leave.
func TestPartBesideOpenSites(t *testing.T) {
	for _, x := range []struct {
		ratio                float64
		beside, most, part   int
		workers, least, room int
	}{
		{1, 0, 16, 0, 16, 4, 16},
		{1, 3, 16, 3, 16, 4, 13},
		{0.5, 3, 16, 2, 16, 4, 13}, // 1.5 is rounded
		{1, 12, 16, 12, 16, 4, 12},
		{1, 15, 16, 15, 16, 4, 15},
		{0.1, 15, 16, 2, 16, 4, 4},
		{0.1, 15, 16, 2, 3, 4, 3},
		{100, 5, 16, 16, 16, 4, 21},
	} {
		v := view{ratio: x.ratio}
		if part, room := v.part(x.beside, x.most), v.room(x.workers, x.beside, x.least); part != x.part || room != x.room {
			t.Errorf("%+v: a part of %d, and room for %d", x, part, room)
		}
	}
}

// TestWhatSitesThatDelayGoBy: what their own requests hold and compute; beside those of the others they have the
// workers that these leave, or as many as their share makes of them.
func TestWhatSitesThatDelayGoBy(t *testing.T) {
	g := shaped()
	g.clock.active, g.openShare = 3, 2 // half of what the others have
	g.busy, g.delayed.busy = 14, 4
	g.load = load{computing: [rungs]int{2: 7}, held: [rungs]int{2: 7, 5: 5}, probing: 2, holding: 5}
	g.delayed.load = load{computing: [rungs]int{2: 1}, held: [rungs]int{2: 1, 5: 2}, probing: 1, holding: 2}
	v := g.viewOf(false)
	if v.load != &g.delayed.load || v.busy != 4 || v.workers != 6 {
		t.Errorf("%d of %d workers are theirs, want 4 of 6", v.busy, v.workers)
	}
	if v.within != 4 || v.n != 4 {
		t.Errorf("beside seven that compute, %d may and %d within their share; want 4", v.n, v.within)
	}
	if longest, most := v.longest(&g.limits), v.mostOf(&g.limits, 3); longest != 5 || most != 10 {
		t.Errorf("%d may be held, and from rung 3 on %d; want 5 and 10", longest, most)
	}
	v = g.viewOf(true)
	if v.load != &g.load || v.busy != 14 || v.workers != 16 || v.n != 2 || v.longest(&g.limits) != 11 {
		t.Errorf("those that delay nobody are judged by %+v", v)
	}
}
