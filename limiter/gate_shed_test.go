package limiter

import (
	"testing"
	"time"
)

// TestWhoIsShed: of the client that has the most work the newest request, of those with as much that of the one that ranks
// worst, whatever their sizes.
func TestWhoIsShed(t *testing.T) {
	for name, x := range map[string]struct {
		ask  []string // a and d are ahead of their share; a asks for shorter ones than b and c, d for longer ones
		want int      // which one is refused
	}{
		"all have one, the worst came first": {[]string{"a", "b", "c"}, 0},
		"all have one, the worst came last":  {[]string{"b", "c", "a"}, 2},
		"the worst is longest, and is first": {[]string{"d", "b", "c"}, 0},
		"the worst is longest, among others": {[]string{"b", "d", "c"}, 1},
		"one has two, the other is worst":    {[]string{"a", "b", "b"}, 2},
		"one has two, and came before":       {[]string{"b", "b", "a"}, 1},
		"the worst has two":                  {[]string{"a", "a", "c"}, 1},
	} {
		p := fair()
		p.MaxHeld = 2
		w := newWorld(p)
		w.acquaint("hog", "a", "b", "c", "d")
		w.light("hog")
		w.light("hog")
		w.outrun("a")
		w.outrun("d")
		var all []*Ticket
		for _, client := range x.ask {
			all = append(all, w.of(client, map[string]time.Duration{"a": sizes[1], "b": sizes[2], "c": sizes[2], "d": sizes[3]}[client]))
		}
		for i, r := range all {
			select {
			case <-r.Decided():
			default:
				if i == x.want {
					t.Errorf("%s: request %d is not told", name, i)
				}
			}
			if v := r.Verdict(); v.Refused() != (i == x.want) || v.Refused() && v.Reason != ServerFull || v.Own {
				t.Errorf("%s: request %d: %+v", name, i, v)
			}
		}
		if g := w.GateState(); g.Shed != 1 || g.Queued != 2 {
			t.Errorf("%s: %d are shed, %d wait", name, g.Shed, g.Queued)
		}
	}
}
