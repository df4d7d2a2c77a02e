package telemetry

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/classify"
	"tempomat/limiter"
)

// TestCounts: every request is counted once, in each of the ways that it is counted,
// whoever else ends at the same time.
func TestCounts(t *testing.T) {
	c, now := NewCounts(), time.Unix(1_000_000, 0)
	c.SetNames([]string{"slash32", "mine"}, []string{"login"})
	debt := limiter.Verdict{Reason: limiter.Debt, Key: limiter.Key{Class: "mine"}}
	refused, shadowed, waited := debt, debt, debt
	refused.Action, refused.Wait, shadowed.Shadow, waited.Wait = limiter.Refuse, time.Hour, true, time.Second
	waited.Would.Key.Class = "slash32" // which is in shadow
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				for _, r := range []Record{
					{Group: Known, Cost: time.Second, Held: 2 * time.Second},
					{Group: Known, Outcome: ClientGone, Cost: time.Second, Orphan: true},
					{Group: Robot, Outcome: Refused, Verdict: refused},
					{Group: Robot, Verdict: shadowed},
					{Group: Robot, Verdict: waited},
					{Group: Stranger, Outcome: Refused},
					{Group: Stranger, Outcome: Refused, Limit: "login"},
					{Group: Stranger, Limit: "login"},
					{Group: Stranger, Outcome: Refused, Limit: "gone"},
					{Group: Newcomer, Outcome: Redirected},
				} {
					r.Who = new(classify.Result)
					c.Note(now, &r)
				}
				c.Malformed()
				c.Limit("login").Match()
			}
		})
	}
	all.Wait()
	const n, sec = 200, 200 * time.Second
	want := &Totals{
		Malformed: n,
		Requests: [Groups][Outcomes]uint64{
			Known:    {Answered: n, ClientGone: n},
			Robot:    {Refused: n, Answered: 2 * n},
			Stranger: {Refused: 3 * n, Answered: n},
			Newcomer: {Redirected: n},
		},
		Refused: [Groups][Refusals]uint64{Robot: {Refusal(limiter.Debt): n}, Stranger: {Unsound: n, OverLimit: 2 * n}},
		Delayed: [Groups]uint64{Known: n, Robot: n}, Shadowed: [Groups]uint64{Robot: 2 * n},
		Cost: [Groups]time.Duration{Known: 2 * sec}, Wasted: [Groups]time.Duration{Known: sec},
		Delay:   [Groups]time.Duration{Known: 2 * sec, Robot: sec},
		Classes: []ClassTotals{{Name: "slash32", Shadowed: n}, {"mine", n, n, n}}, Limits: []LimitTotals{{"login", n, n, n}},
	}
	if diff := cmp.Diff(want, c.Totals()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Totals().All() != 10*n || c.Totals().Ended(Refused) != 4*n {
		t.Errorf("%d requests, %d refused", c.Totals().All(), c.Totals().Ended(Refused))
	}
}

// TestNamesAreThoseOfTheConfiguration: counts of names that stay go on, others are gone.
func TestNamesAreThoseOfTheConfiguration(t *testing.T) {
	c := NewCounts()
	c.SetNames(nil, []string{"a", "b"})
	c.Limit("a").Match()
	c.Limit("new").Match() // before its configuration is in force
	c.SetNames([]string{"x"}, []string{"new", "a"})
	want := []LimitTotals{{Name: "new", Matched: 1}, {Name: "a", Matched: 1}}
	if diff := cmp.Diff(want, c.Totals().Limits); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefusalNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Refusals {
		seen[Refusal(r).String()] = true
	}
	if len(seen) != Refusals || !seen["limit"] || !seen["unsound"] || !seen["busy"] {
		t.Errorf("%v", seen)
	}
}

func BenchmarkCounts(b *testing.B) {
	c, r := NewCounts(), &Record{Cost: time.Millisecond, Who: new(classify.Result)}
	now := time.Unix(1_000_000, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.Note(now, r)
		}
	})
}

// shardCounter is a Counter that looks whether it is told as it was promised.
type shardCounter struct {
	n [Shards]int // without a lock, as there is one at a time for a shard
}

func (s *shardCounter) Count(shard int, some []Counted) { s.n[shard] += len(some) }

// TestCountersAreTold: whoever counts, too, has all once somebody has asked, however many there
// were of a shard and whoever ended at the same time.
func TestCountersAreTold(t *testing.T) {
	c, now := NewCounts(), time.Unix(1_000_000, 0)
	var told shardCounter
	c.Tell(&told)
	const each, goers = 3*mostLately + 7, 4
	var all sync.WaitGroup
	for range goers {
		all.Go(func() {
			for i := range each {
				c.Note(now, &Record{Who: new(classify.Result), Shard: uint8(i % 3)})
			}
		})
	}
	for c.Totals().All() < goers*each {
		runtime.Gosched()
	}
	all.Wait()
	n := 0
	for _, of := range told.n {
		n += of
	}
	if n != goers*each {
		t.Errorf("told of %d, want %d", n, goers*each)
	}
	if sums := c.sums(); sums[Stranger].Requests != goers*each {
		t.Errorf("the sums are of %d, want %d", sums[Stranger].Requests, goers*each)
	}
}
