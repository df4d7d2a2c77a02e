package account

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

const second = time.Second

// TestBucketDiary reads like a diary. Each entry has a time, an event, and the level after the event.
func TestBucketDiary(t *testing.T) {
	charge := func(x float64) func(*bucket, time.Duration) {
		return func(b *bucket, at time.Duration) { b.chargeLocked(at, x) }
	}
	giveBack := func(x float64) func(*bucket, time.Duration) {
		return func(b *bucket, at time.Duration) { b.giveBackLocked(at, x) }
	}
	owe := func(until time.Duration) func(*bucket, time.Duration) {
		return func(b *bucket, at time.Duration) { b.oweLocked(at, until) }
	}
	nothing := charge(0)
	type step struct {
		at    time.Duration
		do    func(*bucket, time.Duration)
		level float64
	}
	for name, diary := range map[string][]step{
		"begins with its burst":    {{0, nothing, 10}},
		"earns up to its burst":    {{0, charge(4), 6}, {2 * second, nothing, 7}, {20 * second, nothing, 10}},
		"pays debt at its rate":    {{0, charge(12), -2}, {2 * second, nothing, -1}, {4 * second, nothing, 0}, {6 * second, nothing, 1}},
		"charged beyond the burst": {{0, charge(25), -15}}, // in this case, the original charged nothing
		"owes at most the floor":   {{0, charge(500), -60}, {0, charge(1), -60}, {2 * second, nothing, -59}},
		"never earns twice": { // the original's clock ran backwards when requests overlapped
			{10 * second, charge(10), 0}, {4 * second, charge(1), -1}, {10 * second, nothing, -1}, {12 * second, nothing, 0},
		},
		"gets back up to its burst":  {{0, charge(2), 8}, {4 * second, giveBack(1), 10}},
		"owes until":                 {{0, owe(20 * second), -10}, {20 * second, nothing, 0}},
		"owes until, only later":     {{0, charge(30), -20}, {0, owe(20 * second), -20}},
		"owes until, but bounded":    {{0, owe(time.Hour), -60}},
		"owes until an earlier time": {{10 * second, owe(5 * second), 10}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBucket()
			for _, s := range diary {
				s.do(b, s.at)
				if math.Abs(b.level-s.level) > 1e-9 {
					t.Fatalf("at %v: level %v, want %v", s.at, b.level, s.level)
				}
			}
		})
	}
}

func newBucket() *bucket {
	b := makeBucket(0, Key{}, testTerms())
	return &b
}

// testTerms earns half a CPU-second per second, saves at most 10, and owes at most 60.
func testTerms() *Terms {
	return &Terms{Class: "slash32", Rate: 0.5, Burst: 10, Floor: -60, Cap: true}
}

func TestBucketSetTermsKeepsDebtAndCutsCredit(t *testing.T) {
	more, less := testTerms(), testTerms()
	more.Burst, more.Rate = 20, 1
	less.Burst, less.Floor = 3, -5

	b := newBucket()
	b.setTermsLocked(0, more)
	testkit.Same(t, 10, b.level, "level after a reload, which must give no credit")
	b.setTermsLocked(2*second, less)
	testkit.Same(t, 3, b.level, "level at the new burst")
	b.setTermsLocked(2*second, testTerms())
	b.chargeLocked(2*second, 33)
	b.setTermsLocked(4*second, less) // the key earns at the old rate until now
	testkit.Same(t, -29, b.level, "level after a reload, which must forgive no debt")
	if moved := b.chargeLocked(4*second, 1); moved != 0 || b.level != -29 {
		t.Errorf("below the new floor: moved %v to %v, want 0 and -29", moved, b.level)
	}
}

// TestBucketNothingIsWashedAway: whatever the order of charges and refunds, even at the burst and the floor,
// the level is never above what it would have been without them.
func TestBucketNothingIsWashedAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		touched, left := newBucket(), newBucket()
		debt := rapid.Float64Range(0, 100).Draw(t, "debt")
		touched.chargeLocked(0, debt)
		left.chargeLocked(0, debt)
		var at time.Duration
		var out []float64
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			at += time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Millisecond
			if len(out) > 0 && rapid.Bool().Draw(t, "back") {
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				touched.giveBackLocked(at, out[i])
				out = append(out[:i], out[i+1:]...)
			} else {
				out = append(out, touched.chargeLocked(at, rapid.Float64Range(0, 30).Draw(t, "cost")))
			}
		}
		for _, x := range out {
			touched.giveBackLocked(at, x)
		}
		touched.chargeLocked(at, 0)
		left.chargeLocked(at, 0)
		if touched.level > left.level+1e-6 {
			t.Fatalf("level %v after all charges were given back, %v without charges", touched.level, left.level)
		}
	})
}
