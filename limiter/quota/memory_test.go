package quota_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter/quota"
	"tempomat/limiter/quota/quotatest"
)

func TestMemoryStore(t *testing.T) {
	quotatest.Store(t, quota.NewMemoryStore(1<<10))
	quotatest.TimedStore(t, quota.NewMemoryStore(1<<16))
}

// TestNeverMore: whatever the times of the requests, no span of time sees more
// pass than the size and what drips in it.
func TestNeverMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := quota.Bucket{
			Size:     rapid.Int64Range(1, 20).Draw(t, "size"),
			DripRate: rapid.Int64Range(1, 3000).Draw(t, "rate"),
			DripSize: rapid.Int64Range(1, 8).Draw(t, "drip"),
		}
		store := quota.NewMemoryStore(64)
		now := rapid.Int64Range(1, 1<<41).Draw(t, "start")
		var passed []int64
		for range rapid.IntRange(1, 200).Draw(t, "checks") {
			now += rapid.Int64Range(0, b.DripRate).Draw(t, "step")
			if s, _ := store.Check(context.Background(), time.UnixMilli(now), "a", "b", b, 1); !s.Blocked {
				passed = append(passed, now)
			}
		}
		for i := range passed {
			for j := i; j < len(passed); j++ {
				bound := b.Size + ((passed[j]-passed[i])/b.DripRate+1)*b.DripSize
				if int64(j-i+1) > bound {
					t.Fatalf("%d passed in %d ms, at most %d may", j-i+1, passed[j]-passed[i], bound)
				}
			}
		}
	})
}

// TestMemoryIsBounded: however many actors come, no more buckets are kept than there is room
// for, and who came last is among them.
func TestMemoryIsBounded(t *testing.T) {
	const size = 64
	store, now := quota.NewMemoryStore(size), time.UnixMilli(1e12)
	long := quota.Bucket{Size: 1, DripRate: 1 << 40, DripSize: 1}
	for i := range 100 * size {
		if _, err := store.Check(t.Context(), now, fmt.Sprint(i), "x", long, 1); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for i := 100*size - 1; i >= 0; i-- {
		s, _ := store.Check(t.Context(), now, fmt.Sprint(i), "x", long, 1)
		if s.Blocked {
			kept++
		} else if i == 100*size-1 {
			t.Error("who came last is forgotten")
		}
	}
	if kept > size {
		t.Errorf("%d actors are remembered, room is for %d", kept, size)
	}
}
