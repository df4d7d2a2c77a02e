package gossip

import (
	"testing"

	"pgregory.net/rapid"
)

// TestWindow holds a window to a set of numbers: nothing is new twice, and what
// is within the window is known exactly.
func TestWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w receiveWindow
		done := map[uint64]bool{}
		high, low := uint64(0), uint64(0) // all up to low were skipped
		near := rapid.Custom(func(t *rapid.T) uint64 {
			at := int64(high) + rapid.Int64Range(-40, 40).Draw(t, "near")
			if rapid.IntRange(0, 30).Draw(t, "far") == 0 {
				at += rapid.Int64Range(-2*windowSize, 2*windowSize).Draw(t, "far")
			}
			return uint64(max(1, at))
		})
		has := func(s uint64) bool {
			return s <= low || done[s] || s+windowSize <= high
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s := near.Draw(t, "number")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				w.skip(s)
				low, high = max(low, s), max(high, s)
			case 1:
				gone := []span{{max(1, s-min(s, 3)), s}}
				w.adopt(s+2, gone)
				for q := uint64(1); q <= s+2; q++ {
					if q+windowSize <= s+2 || !within(gone, q) {
						done[q] = true
					}
				}
				high = max(high, s+2)
			default:
				if got, want := w.has(s), has(s); got != want {
					t.Fatalf("%d is done with: %v, want %v (up to %d)", s, got, want, high)
				}
				w.add(s)
				done[s] = true
				high = max(high, s)
			}
			missing := w.missing(windowSize)
			for q := high; q > 0 && q+50 > high; q-- {
				if within(missing, q) == has(q) {
					t.Fatalf("%d is missing: %v", q, !has(q))
				}
			}
			if w.high != high {
				t.Fatalf("up to %d, want %d", w.high, high)
			}
		}
	})
}

func TestWindowMissingIsBounded(t *testing.T) {
	var w receiveWindow
	for s := uint64(2); s <= 200; s += 2 {
		w.add(s)
	}
	if got := w.missing(3); len(got) != 3 || got[0] != (span{199, 199}) {
		t.Errorf("missing %v", got)
	}
	w.add(1 << 40)
	if got := w.missing(1); len(got) != 1 || got[0] != (span{1<<40 - windowSize + 1, 1<<40 - 1}) {
		t.Errorf("missing %v after a leap", got)
	}
}
