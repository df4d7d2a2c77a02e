package quota

import (
	"math"
	"time"
)

// Most is the upper limit of all numbers of a bucket. It keeps products of two numbers exact enough. As a
// number of milliseconds, it is 34 years.
const Most = 1 << 40

// Bucket is a leaky bucket that counts whole requests. It lets Size units pass at once, and DripSize units drip
// out every DripRate milliseconds. The zero Bucket limits nothing. In any other Bucket, each number is from 1
// to 2^40.
type Bucket struct {
	Size, DripRate, DripSize int64
}

// Unlimited is the number of remaining units that is reported if a bucket limits nothing. It is the largest
// integer that every client can represent exactly, even as a floating-point number.
const Unlimited = 1<<53 - 1

// Status is the state of a bucket after a check.
type Status struct {
	Blocked   bool
	Remaining int64         // units that would pass now
	Reset     time.Duration // time until the same request would pass
	FullReset time.Duration // time until the bucket is empty, counted from its last drip
}

// seconds rounds up to whole seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Limits reports whether the bucket limits anything.
func (b Bucket) Limits() bool { return b.Size > 0 }

// BucketState is what a store keeps for a bucket. The zero BucketState is an empty bucket.
type BucketState struct {
	Counter int64 // units in the bucket
	Stamp   int64 // when the last drip was, in Unix milliseconds; 0: there was none
}

// drip removes the units that have dripped out. The stamp advances by whole drips, so the time since the last
// whole drip isn't lost.
func (b Bucket) drip(s BucketState, now int64) BucketState {
	if s.Counter <= 0 {
		return s
	}
	drips := max(0, now-s.Stamp) / b.DripRate
	s.Stamp += drips * b.DripRate
	if drips > s.Counter/b.DripSize { // unlike the product of drips and DripSize, this comparison can't overflow
		s.Counter = 0
	} else {
		s.Counter -= drips * b.DripSize
	}
	return s
}

// blocks reports whether there is no room for the units. A request for more units than the bucket can hold
// passes if the bucket is empty, and is charged in full.
func (b Bucket) blocks(s BucketState, units int64) bool {
	return units > 0 && s.Counter > b.Size-min(units, b.Size)
}

// Units limits a number of units to what a store accepts: 1 to Most, or -Most to -1.
func Units(n int64) int64 {
	if n < 0 {
		return max(n, -Most)
	}
	return min(max(n, 1), Most)
}

// Take makes a complete check at a time in Unix milliseconds. It lets units drip out, and then adds the new
// ones if there is room for them. A negative number takes units out again.
func (b Bucket) Take(s BucketState, now, units int64) (after BucketState, blocked bool) {
	s = b.drip(s, now)
	if b.blocks(s, units) {
		return s, true
	}
	s.Counter = max(0, s.Counter+units)
	if s.Stamp == 0 {
		s.Stamp = now
	}
	return s, false
}

// Status returns the state of a bucket after a check of some units, at a time in Unix milliseconds.
func (b Bucket) Status(s BucketState, now, units int64, blocked bool) Status {
	if !b.Limits() {
		return Status{Remaining: Unlimited}
	}
	over := max(0, s.Counter+min(units, b.Size)-b.Size)
	return Status{
		Blocked:   blocked,
		Remaining: max(0, b.Size-s.Counter),
		Reset:     milliseconds(b.drips(over) - float64(now-s.Stamp)),
		FullReset: milliseconds(b.drips(s.Counter)),
	}
}

// drips returns how many milliseconds the units take to drip out, counted from a drip.
func (b Bucket) drips(units int64) float64 {
	return float64((units+b.DripSize-1)/b.DripSize) * float64(b.DripRate)
}

// Lifetime returns how long a store must keep the bucket after a check that changed it, in milliseconds:
// until it is empty, rounded up to seconds.
func (b Bucket) Lifetime(units int64) int64 {
	return int64(max(1, math.Ceil(b.drips(max(b.Size, units))/1000)) * 1000)
}

// longest is the longest Duration, in milliseconds.
const longest = int64(math.MaxInt64 / time.Millisecond)

// milliseconds converts milliseconds to a Duration, limited to the range from 0 to the longest Duration.
func milliseconds(ms float64) time.Duration {
	if ms > float64(longest) {
		return math.MaxInt64
	}
	return time.Duration(max(ms, 0)) * time.Millisecond
}
