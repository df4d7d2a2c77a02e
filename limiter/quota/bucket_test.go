package quota_test

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

// TestTake checks how much drips out, how many units there is room for, and when the next drip begins.
func TestTake(t *testing.T) {
	b := quota.Bucket{Size: 5, DripRate: 1000, DripSize: 2}
	for name, c := range map[string]struct {
		before     quota.BucketState
		now, units int64
		after      quota.BucketState
		blocked    bool
	}{
		"the first one begins a drip":          {quota.BucketState{}, 1234, 1, quota.BucketState{1, 1234}, false},
		"before a drip":                        {quota.BucketState{3, 1000}, 1999, 1, quota.BucketState{4, 1000}, false},
		"at a drip":                            {quota.BucketState{3, 1000}, 2000, 1, quota.BucketState{2, 2000}, false},
		"after a drip, its rest is kept":       {quota.BucketState{3, 1000}, 2700, 1, quota.BucketState{2, 2000}, false},
		"more drips than there are units":      {quota.BucketState{5, 1000}, 5500, 1, quota.BucketState{1, 5000}, false},
		"as many drips as units":               {quota.BucketState{4, 1000}, 3000, 1, quota.BucketState{1, 3000}, false},
		"full":                                 {quota.BucketState{5, 1000}, 1500, 1, quota.BucketState{5, 1000}, true},
		"room for two of three":                {quota.BucketState{3, 1000}, 1500, 3, quota.BucketState{3, 1000}, true},
		"room for two of two":                  {quota.BucketState{3, 1000}, 1500, 2, quota.BucketState{5, 1000}, false},
		"units drip although it is blocked":    {quota.BucketState{5, 1000}, 2500, 3, quota.BucketState{3, 2000}, true},
		"more than the size, when empty":       {quota.BucketState{0, 0}, 1000, 9, quota.BucketState{9, 1000}, false},
		"more than the size, when not empty":   {quota.BucketState{1, 1000}, 1000, 9, quota.BucketState{1, 1000}, true},
		"nothing drips if the clock goes back": {quota.BucketState{3, 9000}, 1000, 1, quota.BucketState{4, 9000}, false},
	} {
		if after, blocked := b.Take(c.before, c.now, c.units); after != c.after || blocked != c.blocked {
			t.Errorf("%s: %+v, blocked %v; want %+v, %v", name, after, blocked, c.after, c.blocked)
		}
	}
}

// TestStatus checks how long it takes until the same request would pass, and until the bucket is empty.
func TestStatus(t *testing.T) {
	b := quota.Bucket{Size: 5, DripRate: 1000, DripSize: 2}
	const longest = 9_223_372_036_854 // the longest Duration, in milliseconds
	slow := quota.Bucket{Size: 18, DripRate: longest / 18, DripSize: 1}
	for name, c := range map[string]struct {
		b          quota.Bucket
		s          quota.BucketState
		now, units int64
		want       quota.Status
	}{
		"room":                   {b, quota.BucketState{3, 1000}, 1300, 2, quota.Status{Remaining: 2, FullReset: 2 * time.Second}},
		"one too many":           {b, quota.BucketState{3, 1000}, 1300, 3, quota.Status{Remaining: 2, Reset: 700 * time.Millisecond, FullReset: 2 * time.Second}},
		"two drips":              {b, quota.BucketState{5, 1000}, 1300, 3, quota.Status{Reset: 1700 * time.Millisecond, FullReset: 3 * time.Second}},
		"more than the size":     {b, quota.BucketState{9, 1000}, 1000, 9, quota.Status{Reset: 5 * time.Second, FullReset: 5 * time.Second}},
		"later than the reset":   {b, quota.BucketState{3, 1000}, 9000, 3, quota.Status{Remaining: 2, FullReset: 2 * time.Second}},
		"the longest duration":   {slow, quota.BucketState{18, 1}, 1, 18, quota.Status{Reset: longest * time.Millisecond, FullReset: longest * time.Millisecond}},
		"longer than a duration": {slow, quota.BucketState{19, 1}, 1, 18, quota.Status{Reset: math.MaxInt64, FullReset: math.MaxInt64}},
	} {
		testkit.Same(t, c.want, c.b.Status(c.s, c.now, c.units, false), "%s", name)
	}
}

func TestLifetime(t *testing.T) {
	for _, c := range []struct {
		b           quota.Bucket
		units, want int64
	}{
		{quota.Bucket{Size: 1, DripRate: 1, DripSize: 1}, 1, 1000},
		{quota.Bucket{Size: 1, DripRate: 1000, DripSize: 1}, 1, 1000},
		{quota.Bucket{Size: 1, DripRate: 1001, DripSize: 1}, 1, 2000},
		{quota.Bucket{Size: 7, DripRate: 1500, DripSize: 2}, 1, 6000},
		{quota.Bucket{Size: 2, DripRate: 1500, DripSize: 2}, 3, 3000},
	} {
		testkit.Same(t, c.want, c.b.Lifetime(c.units), "%+v with %d units: ms kept", c.b, c.units)
	}
}
