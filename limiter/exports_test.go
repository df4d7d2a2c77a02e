package limiter

import (
	"testing"
	"time"
)

// TestMuchLongerOnesAreNotWaitedFor: who is ahead of its share waits until the long ones of others that are ahead leave it CPUs, but
// for none that may take a minute more than it; nor where some compute that held a worker only, for which nobody made room.
func TestMuchLongerOnesAreNotWaitedFor(t *testing.T) {
	for name, x := range map[string]struct {
		level     level
		there     rung
		many      int
		uninvited int
		unsure    bool
		want      bool
	}{
		"as long":               {level: 3, there: 3, many: 3},
		"somewhat longer":       {level: 3, there: 4, many: 3},
		"much longer":           {level: 3, there: 5, many: 3, want: true},
		"shorter, but long too": {level: 5, there: 3, many: 3},
		"the longest":           {level: rungs - 1, there: rungs - 1, many: 3},

		"one held a worker only":                   {level: 3, there: 4, many: 3, uninvited: 1, want: true},
		"one held a worker only, and nobody knows": {level: 3, there: 4, many: 3, uninvited: 1, unsure: true},
	} {
		g := shaped()
		g.load.computing[x.there], g.load.overShare[x.there], g.load.uninvited = x.many, x.many, x.uninvited
		r := &Ticket{request: request{sure: !x.unsure}, queueEntry: queueEntry{level: x.level, overShare: true, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if got := g.leaves(0, r); got != x.want {
			t.Errorf("%s: it goes: %t", name, got)
		}
	}
}

// TestRoomBesideLongerOnes: up to 400 ms there is room for half as many; and on each rung for as many as held a worker only.
func TestRoomBesideLongerOnes(t *testing.T) {
	for name, x := range map[string]struct {
		there     rung
		many      int
		uninvited int
		want      [rungs]int // the room for each rung
	}{
		"none":                       {want: [rungs]int{2, 2, 2, 2, 2, 2, 2}},
		"one":                        {there: 4, many: 1, want: [rungs]int{3, 3, 3, 2, 2, 2, 2}},
		"two":                        {there: 4, many: 2, want: [rungs]int{3, 3, 3, 2, 2, 2, 2}},
		"twenty":                     {there: 4, many: 20, want: [rungs]int{12, 12, 12, 2, 2, 2, 2}},
		"twenty of the longest":      {there: rungs - 1, many: 20, want: [rungs]int{12, 12, 12, 2, 2, 2, 2}},
		"twenty of the next rung":    {there: passRung + 1, many: 20, want: [rungs]int{12, 12, 2, 2, 2, 2, 2}},
		"twenty of the shorter ones": {there: lightRung, many: 20, want: [rungs]int{2, 2, 2, 2, 2, 2, 2}},
		"twenty that held a worker":  {there: 4, many: 20, uninvited: 20, want: [rungs]int{22, 22, 22, 22, 22, 22, 22}},
		"three of twenty":            {there: 4, many: 20, uninvited: 3, want: [rungs]int{12, 12, 12, 5, 5, 5, 5}},
	} {
		g := shaped()
		g.load.computing[x.there], g.load.uninvited = x.many, x.uninvited
		for r := range rung(rungs) {
			if got := g.room(0, r); got != x.want[r] {
				t.Errorf("%s: room for %d on rung %d, want %d", name, got, r, x.want[r])
			}
		}
	}
}

// TestWhatHeldAWorkerOnly: nobody made room for one that was seen not to compute, and then does.
func TestWhatHeldAWorkerOnly(t *testing.T) {
	w := siegeOf("a")
	x := w.of("a", 10*time.Second)
	for i, c := range []struct {
		computes bool
		want     int
	}{{true, 0}, {false, 0}, {true, 1}, {true, 1}, {false, 0}, {true, 1}} {
		w.run(time.Second)
		w.Progress(w.now, x, time.Duration(i)*time.Second, c.computes)
		if got := w.gate.load.uninvited; got != c.want {
			t.Errorf("step %d: %d compute that nobody made room for, want %d", i, got, c.want)
		}
	}
	w.done(x, 6*time.Second)
	if got := w.gate.load.uninvited; got != 0 {
		t.Errorf("%d compute after it is done", got)
	}
}
