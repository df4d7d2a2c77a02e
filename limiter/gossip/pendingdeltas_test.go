package gossip

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter"
)

// TestTally: the sums are right, and the heaviest come first, whatever else there is.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pending, want := newPendingDeltas(), map[limiter.Key]time.Duration{}
		for range rapid.IntRange(0, 200).Draw(t, "charges") {
			k := testKey(fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "key")))
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				pending.remove(k)
				delete(want, k)
				continue
			}
			cost := time.Duration(1) << rapid.IntRange(0, 45).Draw(t, "cost")
			pending.add(0, k, cost)
			want[k] = min(want[k]+cost, maxCost)
		}
		n := rapid.IntRange(0, 50).Draw(t, "n")
		got := pending.heaviest(nil, n)
		if len(got) != min(n, len(want)) {
			t.Fatalf("%d of %d, want %d", len(got), len(want), n)
		}
		all := make([]time.Duration, 0, len(want))
		for _, x := range want {
			all = append(all, x)
		}
		slices.Sort(all)
		slices.Reverse(all)
		for i, a := range got {
			if a.time != want[a.key] || a.time != all[i] {
				t.Fatalf("the heaviest but %d is %v with %v, want %v", i, a.key, a.time, all[i])
			}
		}
	})
}

func TestTallyForgets(t *testing.T) {
	pending := newPendingDeltas()
	for i := range 10 {
		pending.add(int64(i), testKey(fmt.Sprint(i)), time.Second)
		pending.add(int64(i+5), testKey(fmt.Sprint(i)), time.Second)
	}
	if n := pending.forget(7); n != 7 || pending.of(testKey("6")) != 0 || pending.of(testKey("7")) != 2*time.Second {
		t.Errorf("%d forgotten, %v left", n, pending.totals)
	}
	if pending.add(0, testKey(string(make([]byte, maxID+1))), 1) {
		t.Error("a key that is too long was taken")
	}
}
