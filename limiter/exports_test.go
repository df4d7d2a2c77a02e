package limiter

import "testing"

// TestMuchLongerOnesAreNotWaitedFor: who is ahead of its share waits until the long ones of others that are ahead leave it CPUs, but
// for none that may take a minute more than it.
func TestMuchLongerOnesAreNotWaitedFor(t *testing.T) {
	for name, x := range map[string]struct {
		level level
		there rung
		want  bool
	}{
		"as long":               {level: 3, there: 3},
		"somewhat longer":       {level: 3, there: 4},
		"much longer":           {level: 3, there: 5, want: true},
		"shorter, but long too": {level: 5, there: 3},
		"the longest":           {level: rungs - 1, there: rungs - 1},
	} {
		g := shaped()
		g.load.computing[x.there], g.load.ahead[x.there] = 3, 3
		r := &Ticket{queueEntry: queueEntry{level: x.level, ahead: true, site: &g.home, flow: &flow{share: 0.5, virtualTime: 14}}}
		if got := g.leaves(0, r); got != x.want {
			t.Errorf("%s: it goes: %t", name, got)
		}
	}
}
