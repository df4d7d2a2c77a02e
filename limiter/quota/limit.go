package quota

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Limit says how many requests are allowed, in one of two forms. With a Type it
// is a bucket: Size requests at once, of which DripSize are forgotten each
// DripRate milliseconds. Without one it is the older form: Max requests in
// Duration milliseconds, MinInterval milliseconds apart, which Bucket translates.
// What is not given is nil.
type Limit struct {
	Name string `json:"key"` // in error texts, key names and header fields
	Type string `json:"type"`

	Size     *float64 `json:"size"`     // ≥ 1
	DripRate *float64 `json:"dripRate"` // ms, ≥ 1; nil: 1000
	DripSize *float64 `json:"dripSize"` // ≥ 1; nil: 1

	Max         *float64 `json:"max"`         // ≥ 1
	Duration    *float64 `json:"duration"`    // ms; 0: no limit
	MinInterval *float64 `json:"minInterval"` // ms; alone, 0: no limit
}

// Invalid is the error of a limit that makes no sense.
type Invalid struct {
	Limit  string // its name; empty: the factor is what makes no sense
	Reason string
}

func (e *Invalid) Error() string {
	if e.Limit == "" {
		return e.Reason
	}
	return "Invalid rate limit " + e.Limit + ": " + e.Reason
}

// Most bounds every number of a bucket, so that products of two stay exact
// enough: 34 years in milliseconds.
const Most = 1 << 40

// Bucket makes the limit ready for one kind of client. The factor divides the
// size, so that 0.5 allows twice as much at once and no more in the long run; at
// 0 there is no limit and nothing is looked at. The error is an *Invalid.
func (l Limit) Bucket(factor float64) (Bucket, error) {
	if !(factor >= 0) { // not a number either
		return Bucket{}, &Invalid{Reason: "Rate limit factor is zero or negative: " + number(factor)}
	}
	if factor == 0 {
		return Bucket{}, nil
	}
	if l.Type == "" {
		translated, err := l.translate()
		if err != nil || translated == nil {
			return Bucket{}, err
		}
		l = *translated
	}
	size, rate, drip := given(l.Size, math.NaN()), given(l.DripRate, 1000), given(l.DripSize, 1)
	for _, f := range []struct {
		name  string
		value float64
	}{{"size", size}, {"dripRate", rate}, {"dripSize", drip}} {
		if !(f.value >= 1) {
			return Bucket{}, l.invalid(f.name+" is less than 1", f.value)
		}
	}
	return Bucket{
		Size:     whole(max(math.Ceil(size/factor), 1)),
		DripRate: whole(math.Ceil(rate)),
		DripSize: whole(math.Ceil(drip)),
	}, nil
}

// translate turns the older form into a bucket, nil if it limits nothing. The
// smallest distance only shapes the drips, it is not enforced between two requests.
func (l Limit) translate() (*Limit, error) {
	b := &Limit{Name: l.Name, Type: "bucket"}
	switch {
	case l.Max != nil && l.Duration != nil:
		limit, duration := *l.Max, *l.Duration
		switch {
		case !(duration >= 0):
			return nil, l.invalid("duration is negative", duration)
		case duration == 0:
			return nil, nil
		case !(limit >= 1):
			return nil, l.invalid("max is less than 1", limit)
		}
		rate := max(given(l.MinInterval, round(duration/limit)), 1)
		drip := max(round(limit/(duration/rate)), 1)
		b.Size, b.DripSize = new(limit), new(drip)
		b.DripRate = new(max(round(duration/(limit/drip)), 1))
	case l.MinInterval != nil:
		interval := *l.MinInterval
		switch {
		case !(interval >= 0):
			return nil, l.invalid("minInterval is negative", interval)
		case interval == 0:
			return nil, nil
		}
		b.Size, b.DripRate = new(float64(1)), new(max(round(interval), 1))
	default:
		return nil, nil
	}
	return b, nil
}

func (l Limit) invalid(what string, value float64) error {
	return &Invalid{Limit: l.Name, Reason: what + " (" + number(value) + ")"}
}

func given(value *float64, otherwise float64) float64 {
	if value == nil {
		return otherwise
	}
	return *value
}

func whole(x float64) int64 { return int64(min(x, Most)) }

// round rounds half up, as JavaScript does.
func round(x float64) float64 {
	down := math.Floor(x)
	if x-down >= 0.5 {
		return down + 1
	}
	return down
}

// number writes a number as JavaScript does, as the error texts are those that
// people know from there.
func number(x float64) string {
	switch a := math.Abs(x); {
	case math.IsNaN(x):
		return "NaN"
	case math.IsInf(x, 0):
		return strings.TrimPrefix(strconv.FormatFloat(x, 'f', 0, 64), "+") + "inity"
	case x == 0:
		return "0"
	case a >= 1e-6 && a < 1e21:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	return mantissa + "e" + exponent[:1] + strings.TrimLeft(exponent[1:], "0")
}

// Bucket is a leaky bucket as a meter, in whole requests: so many units are let
// through at once, of which DripSize are forgotten each DripRate milliseconds.
// The zero Bucket limits nothing. Limit.Bucket makes one; all numbers are 1 to 2^40.
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

// FullResetSeconds is FullReset rounded up to seconds.
func (s Status) FullResetSeconds() int64 { return seconds(s.FullReset) }

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Limits says whether the bucket limits anything.
func (b Bucket) Limits() bool { return b.Size > 0 }

// BucketState is what a store keeps of a bucket. The zero BucketState is an empty one.
type BucketState struct {
	Counter int64 // units in the bucket
	Stamp   int64 // of the last drip, in Unix milliseconds; 0: it never dripped
}

// Due tells how many drips have come since the last one. The part of a drip that
// has gone by stays: the stamp steps by whole drips.
func (b Bucket) Due(s BucketState, now int64) int64 {
	if s.Counter <= 0 {
		return 0
	}
	return max(0, now-s.Stamp) / b.DripRate
}

// drip takes out what has dripped.
func (b Bucket) drip(s BucketState, now int64) BucketState {
	drips := b.Due(s, now)
	s.Counter -= b.Dripped(s, drips)
	s.Stamp += drips * b.DripRate
	return s
}

// Dripped is how many units that many drips take out.
func (b Bucket) Dripped(s BucketState, drips int64) int64 {
	if drips > s.Counter/b.DripSize { // beside the check, no product overflows
		return max(0, s.Counter)
	}
	return drips * b.DripSize
}

// Blocks says whether so many units have no room. More than a bucket holds pass
// when it is empty, and are charged in full.
func (b Bucket) Blocks(s BucketState, units int64) bool {
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
	if b.Blocks(s, units) {
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
