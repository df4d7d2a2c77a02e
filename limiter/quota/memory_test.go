package quota_test

import (
	"fmt"
	"testing"
	"time"

	"tempomat/limiter/quota"
	"tempomat/limiter/quota/quotatest"
)

func TestMemoryStore(t *testing.T) {
	quotatest.Store(t, quota.NewMemoryStore(1<<10))
	quotatest.TimedStore(t, quota.NewMemoryStore(1<<16))
}

// TestMemoryIsBounded: however many actors there are, the store keeps only as many buckets as it has room for.
// One of these is the latest actor's.
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
			t.Error("the latest actor is forgotten")
		}
	}
	if kept > size {
		t.Errorf("%d actors are remembered, but there is room for %d", kept, size)
	}
}
