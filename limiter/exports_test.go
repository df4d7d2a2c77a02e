package limiter

import "testing"

// TestMuchLongerOnesAreNotWaitedFor: who is ahead of its share waits until the long ones of others that are ahead leave it CPUs, but
// for none that may take a minute more than it; nor where more of the longer ones compute than the ladder lets go, two on each of
// three rungs: they came as some that wait.
func TestMuchLongerOnesAreNotWaitedFor(t *testing.T) {
	for name, x := range map[string]struct {
		level  level
		there  rung
		many   int
		unsure bool
		want   bool
	}{
		"as long":               {level: 3, there: 3, many: 3},
		"somewhat longer":       {level: 3, there: 4, many: 3},
		"much longer":           {level: 3, there: 5, many: 3, want: true},
		"shorter, but long too": {level: 5, there: 3, many: 3},
		"the longest":           {level: rungs - 1, there: rungs - 1, many: 3},

		"as many as the ladder has for longer ones": {level: 3, there: 4, many: 6},
		"more than that":                      {level: 3, there: 4, many: 7, want: true},
		"more than that, and nobody knows":    {level: 3, there: 4, many: 20, unsure: true},
		"more than that, as long":             {level: 3, there: 3, many: 20},
		"more than that, and it is as long":   {level: 4, there: 4, many: 20},
		"more than that, and it is longer":    {level: 5, there: 4, many: 20},
		"more than that, and it is a longest": {level: rungs - 1, there: rungs - 1, many: 20},
	} {
		g := shaped()
		g.load.computing[x.there], g.load.ahead[x.there] = x.many, x.many
		r := &Ticket{sure: !x.unsure, queueEntry: queueEntry{level: x.level, ahead: true, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if got := g.leaves(0, r); got != x.want {
			t.Errorf("%s: it goes: %t", name, got)
		}
	}
}

// TestRoomBesideWhatCameToWait: beside longer ones that were not let go as such there is room for as many.
func TestRoomBesideWhatCameToWait(t *testing.T) {
	for name, x := range map[string]struct {
		there rung
		many  int
		want  [rungs]int // the room for each rung
	}{
		"none":                       {want: [rungs]int{2, 2, 2, 2, 2, 2, 2}},
		"one":                        {there: 4, many: 1, want: [rungs]int{3, 3, 3, 2, 2, 2, 2}},
		"two":                        {there: 4, many: 2, want: [rungs]int{3, 3, 3, 2, 2, 2, 2}},
		"twenty":                     {there: 4, many: 20, want: [rungs]int{12, 12, 12, 2, 2, 2, 2}},
		"twenty of the longest":      {there: rungs - 1, many: 20, want: [rungs]int{12, 12, 12, 2, 2, 2, 2}},
		"twenty of the next rung":    {there: passRung + 1, many: 20, want: [rungs]int{12, 12, 2, 2, 2, 2, 2}},
		"twenty of the shorter ones": {there: lightRung, many: 20, want: [rungs]int{2, 2, 2, 2, 2, 2, 2}},
	} {
		g := shaped()
		g.load.computing[x.there] = x.many
		for r := range rung(rungs) {
			if got := g.room(0, r); got != x.want[r] {
				t.Errorf("%s: room for %d on rung %d, want %d", name, got, r, x.want[r])
			}
		}
	}
}
