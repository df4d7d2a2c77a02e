// Package quotatest checks that stores of buckets behave as package quota requires.
package quotatest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter/quota"
)

// Store tests what every Store must do, whatever clock it uses. It takes less than a second by the store's
// clock. The store must be empty.
func Store(t *testing.T, s quota.Store) {
	c := checks{t, s, time.UnixMilli(1e12)}
	b := quota.Bucket{Size: 2, DripRate: hour, DripSize: 1}
	c.one("a", "login", b, 1, passes, 1)
	c.one("a", "login", b, 1, passes, 0)
	c.one("a", "login", b, 1, blocked, 0)
	c.one("b", "login", b, 1, passes, 1) // another actor has another bucket
	c.one("a", "search", b, 1, passes, 1)
	c.one("alog", "in", b, 1, passes, 1) // this actor and limit form the same text as the next pair
	c.one("ina", "log", b, 1, passes, 1)
	c.one("a", "login", quota.Bucket{}, 1, passes, quota.Unlimited)
	c.one("c", "login", b, 0, passes, 1) // less than 1 counts as 1
	c.one("c", "login", b, 2, blocked, 1)
	c.one("c", "login", b, 1, passes, 0) // blocked requests aren't charged
	c.one("d", "login", b, 5, passes, 0) // an empty bucket accepts more than its size
	c.one("d", "login", b, 1, blocked, 0)
	c.exact()
}

const hour = int64(time.Hour / time.Millisecond)

const (
	passes  = false
	blocked = true
)

type checks struct {
	t     *testing.T
	store quota.Store
	now   time.Time
}

func (c checks) one(actor, name string, b quota.Bucket, units int64, blocked bool, remaining int64) {
	c.t.Helper()
	got, err := c.store.Check(c.t.Context(), c.now, actor, name, b, units)
	if err != nil || got.Blocked != blocked || got.Remaining != remaining {
		c.t.Errorf("%d of %s for %s: %+v, %v; want blocked %v, %d left", units, actor, name, got, err, blocked, remaining)
	}
	if b.Limits() && blocked && (got.Reset <= 0 || got.Reset > got.FullReset) {
		c.t.Errorf("%s for %s: the request passes in %v, and the bucket is empty in %v", actor, name, got.Reset, got.FullReset)
	}
}

// exact makes more checks of one bucket at the same time than may pass, and counts those that pass.
func (c checks) exact() {
	c.t.Helper()
	const size, workers, each = 50, 8, 20
	b := quota.Bucket{Size: size, DripRate: hour, DripSize: 1}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range each {
				got, err := c.store.Check(c.t.Context(), c.now, "raced", "login", b, 1)
				if err != nil {
					c.t.Error(err)
				}
				if !got.Blocked {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != size {
		c.t.Errorf("%d of %d passed at the same time, want %d", passed.Load(), workers*each, size)
	}
}

// TimedStore tests a Store that uses the time passed to it. Each check must give the result of the bucket's
// arithmetic. The Store must keep a bucket for at least its lifetime after its last change.
func TimedStore(t *testing.T, s quota.Store) {
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		b := quota.Bucket{
			Size:     rapid.Int64Range(1, 20).Draw(t, "size"),
			DripRate: rapid.Int64Range(2000, 5000).Draw(t, "rate"), // longer than the test, so nothing expires
			DripSize: rapid.Int64Range(1, 8).Draw(t, "drip"),
		}
		may := []kept{{}} // the states that the bucket may have
		now := rapid.Int64Range(1, 1<<41).Draw(t, "start")
		for range rapid.IntRange(1, 12).Draw(t, "checks") {
			now += rapid.Int64Range(0, b.DripRate*3).Draw(t, "step")
			units := rapid.SampledFrom([]int64{1, 2, 3, -1}).Draw(t, "units")
			got, err := s.Check(context.Background(), time.UnixMilli(now), "actor", fmt.Sprint("limit", n), b, units)
			if err != nil {
				t.Fatal(err)
			}
			may = follow(t, b, may, now, units, got)
		}
	})
}

// kept is a state that a store may have for a bucket.
type kept struct {
	state   quota.BucketState
	expires int64 // Unix milliseconds; from then on, the store may have forgotten the bucket
}

// follow returns the states that a bucket may have after a check with this result. It fails if none of the
// states before the check leads to the result.
func follow(t *rapid.T, b quota.Bucket, may []kept, now, units int64, got quota.Status) (after []kept) {
	t.Helper()
	for _, k := range may {
		if k.expires < now {
			may = append(may, kept{expires: now})
		}
	}
	for _, k := range may {
		state, blocked := b.Take(k.state, now, units)
		if b.Status(state, now, units, blocked) != got {
			continue
		}
		if state != k.state {
			k = kept{state, now + b.Lifetime(units)}
		}
		if !slices.Contains(after, k) {
			after = append(after, k)
		}
	}
	if after == nil {
		t.Fatalf("%+v of %+v at %d: no state of %+v leads to this", got, b, now, may)
	}
	return after
}
