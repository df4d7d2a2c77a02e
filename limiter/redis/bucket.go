package redis

import (
	"math"
	"time"
)

// Bucket is a leaky bucket as a meter, in whole requests: so many units are let
// through at once, of which DripSize are forgotten each DripRate milliseconds.
// The zero Bucket limits nothing. Limit.Bucket makes one; all numbers are 1 to 2^40.
type Bucket struct {
	Size, DripRate, DripSize int64
}

// Unlimited is the units left in a bucket that limits nothing: the largest number
// that every client can read exactly.
const Unlimited = 1<<53 - 1

// Info is how a bucket stands after a check.
type Info struct {
	Blocked   bool
	Remaining int64         // units that would pass at once
	Reset     time.Duration // until the same request would pass again
	FullReset time.Duration // until the bucket is empty, counted from its last drip
}

// ResetSeconds is Reset rounded up to seconds.
func (i Info) ResetSeconds() int64 { return seconds(i.Reset) }

// FullResetSeconds is FullReset rounded up to seconds.
func (i Info) FullResetSeconds() int64 { return seconds(i.FullReset) }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// limits says whether the bucket limits anything.
func (b Bucket) limits() bool { return b.Size > 0 }

// tally is what is kept of a bucket. Its instants are Unix milliseconds.
type tally struct {
	counter int64 // units in the bucket
	stamp   int64 // of the last drip; 0: it never dripped
}

// due tells how many drips have come since the last one. The part of a drip that
// has gone by stays: the stamp steps by whole drips.
func (b Bucket) due(t tally, now int64) int64 {
	if t.counter <= 0 || now < t.stamp {
		return 0
	}
	return (now - t.stamp) / b.DripRate
}

// drip takes out what has dripped.
func (b Bucket) drip(t tally, now int64) tally {
	drips := b.due(t, now)
	t.counter -= b.dripped(t, drips)
	t.stamp += drips * b.DripRate
	return t
}

// dripped is how many units that many drips take out.
func (b Bucket) dripped(t tally, drips int64) int64 {
	if drips > t.counter/b.DripSize { // beside the check, no product overflows
		return max(0, t.counter)
	}
	return drips * b.DripSize
}

// blocks says whether so many units have no room. More than a bucket holds pass
// when it is empty, and are charged in full.
func (b Bucket) blocks(t tally, units int64) bool {
	return t.counter > b.Size-min(units, b.Size)
}

// take is a whole check: it drips, and puts the units in if they have room.
func (b Bucket) take(t tally, now, units int64) (after tally, blocked bool) {
	t = b.drip(t, now)
	if b.blocks(t, units) {
		return t, true
	}
	t.counter += units
	if t.stamp == 0 {
		t.stamp = now
	}
	return t, false
}

// info tells how a bucket stands.
func (b Bucket) info(t tally, now, units int64, blocked bool) Info {
	if !b.limits() {
		return Info{Remaining: Unlimited}
	}
	over := max(0, t.counter+min(units, b.Size)-b.Size)
	return Info{
		Blocked:   blocked,
		Remaining: max(0, b.Size-t.counter),
		Reset:     milliseconds(b.drips(over) - float64(now-t.stamp)),
		FullReset: milliseconds(b.drips(t.counter)),
	}
}

// drips is how many milliseconds it takes to drip so many units, from one drip on.
func (b Bucket) drips(units int64) float64 {
	return float64((units+b.DripSize-1)/b.DripSize) * float64(b.DripRate)
}

// lifetime is how long the bucket is kept after a change, in milliseconds: until
// it is empty, in whole seconds.
func (b Bucket) lifetime(units int64) int64 {
	return int64(max(1, math.Ceil(b.drips(max(b.Size, units))/1000)) * 1000)
}

// longest is the longest Duration, in milliseconds.
const longest = int64(math.MaxInt64 / time.Millisecond)

// milliseconds is at least 0 and at most the longest Duration.
func milliseconds(ms float64) time.Duration {
	if ms >= float64(longest) {
		return math.MaxInt64
	}
	return time.Duration(max(ms, 0)) * time.Millisecond
}
