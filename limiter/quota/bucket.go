package quota

import (
	"math"
	"time"
)

// Most bounds every number of a bucket, so that products of two stay exact
// enough: 34 years in milliseconds.
const Most = 1 << 40

// Bucket is a leaky bucket as a meter, in whole requests: so many units are let
// through at once, of which DripSize are forgotten each DripRate milliseconds.
// The zero Bucket limits nothing. Else all numbers are 1 to 2^40.
type Bucket struct {
	Size, DripRate, DripSize int64
}

// Unlimited is the units left in a bucket that limits nothing: the largest number
// that every client can read exactly.
const Unlimited = 1<<53 - 1

// Status is how a bucket stands after a check.
type Status struct {
	Blocked   bool
	Remaining int64         // units that would pass at once
	Reset     time.Duration // until the same request would pass again
	FullReset time.Duration // until the bucket is empty, counted from its last drip
}

// ResetSeconds is Reset rounded up to seconds.
func (s Status) ResetSeconds() int64 { return seconds(s.Reset) }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Limits reports whether the bucket limits anything.
func (b Bucket) Limits() bool { return b.Size > 0 }

// BucketState is what a store keeps of a bucket. The zero BucketState is an empty one.
type BucketState struct {
	Counter int64 // units in the bucket
	Stamp   int64 // of the last drip, in Unix milliseconds; 0: it never dripped
}

// drip takes out what has dripped. The part of a drip that has gone by stays: the stamp steps by
// whole drips.
func (b Bucket) drip(s BucketState, now int64) BucketState {
	if s.Counter <= 0 {
		return s
	}
	drips := max(0, now-s.Stamp) / b.DripRate
	s.Stamp += drips * b.DripRate
	if drips > s.Counter/b.DripSize { // besides the check: no product overflows
		s.Counter = 0
	} else {
		s.Counter -= drips * b.DripSize
	}
	return s
}

// blocks says whether so many units have no room. More than a bucket holds pass
// when it is empty, and are charged in full.
func (b Bucket) blocks(s BucketState, units int64) bool {
	return units > 0 && s.Counter > b.Size-min(units, b.Size)
}

// Units are so many as a store can take: at least 1, or fewer than 0.
func Units(n int64) int64 {
	if n < 0 {
		return max(n, -Most)
	}
	return min(max(n, 1), Most)
}

// Take is a whole check, at a time in Unix milliseconds: it drips, and puts the units in
// if they have room, or takes them out.
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

// Status tells how a bucket stands after a check of so many units, at a time in Unix
// milliseconds.
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

// drips is how many milliseconds it takes to drip so many units, from one drip on.
func (b Bucket) drips(units int64) float64 {
	return float64((units+b.DripSize-1)/b.DripSize) * float64(b.DripRate)
}

// Lifetime is how long a store keeps the bucket after a check that changed it, in
// milliseconds: until it is empty, in whole seconds.
func (b Bucket) Lifetime(units int64) int64 {
	return int64(max(1, math.Ceil(b.drips(max(b.Size, units))/1000)) * 1000)
}

// longest is the longest Duration, in milliseconds.
const longest = int64(math.MaxInt64 / time.Millisecond)

// milliseconds is at least 0 and at most the longest Duration.
func milliseconds(ms float64) time.Duration {
	if ms > float64(longest) {
		return math.MaxInt64
	}
	return time.Duration(max(ms, 0)) * time.Millisecond
}
