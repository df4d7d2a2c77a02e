package telemetry

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestCounts: each counter counts every request once, even if others end at the same time.
func TestCounts(t *testing.T) {
	c, now := NewCounts(), time.Unix(1_000_000, 0)
	c.SetNames([]string{"slash32", "mine"}, []string{"login"})
	debt := limiter.Verdict{Reason: limiter.Debt, Key: limiter.Key{Class: "mine"}}
	refused, shadowed, waited := debt, debt, debt
	refused.Action, refused.Wait, shadowed.Shadow, waited.Wait = limiter.Refuse, time.Hour, true, time.Second
	waited.Would.Key.Class = "slash32" // this class is in shadow mode
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
					{Group: Stranger, Limit: "login", Status: 500},
					{Group: Stranger, Outcome: Refused, Limit: "gone"},
					{Group: Newcomer, Outcome: Redirected},
				} {
					r.Who, r.Request = new(classify.Result), new(http.Request)
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
		Groups: [Groups]Sums{
			Known: {Ended: [Outcomes]uint64{Answered: n, ClientGone: n}, Delayed: n, Delay: 2 * sec, Cost: 2 * sec, Wasted: sec},
			Robot: {
				Ended: [Outcomes]uint64{Refused: n, Answered: 2 * n}, Refused: [Refusals]uint64{limiter.Debt: n},
				Delayed: n, Delay: sec, Shadowed: 2 * n,
			},
			Stranger: {Ended: [Outcomes]uint64{Refused: 3 * n, Answered: n}, Refused: [Refusals]uint64{Unsound: n, OverLimit: 2 * n}, Failed: n},
			Newcomer: {Ended: [Outcomes]uint64{Redirected: n}},
		},
		Classes: []NameTotals{{Name: "slash32", Shadowed: n}, {"mine", 0, n, n, n}}, Limits: []NameTotals{{"login", n, 0, n, n}},
	}
	testkit.Same(t, want, c.Totals(), "totals")
	if all := c.Totals().All(); all.Requests() != 10*n || all.Ended[Refused] != 4*n {
		t.Errorf("%d requests, %d refused", all.Requests(), all.Ended[Refused])
	}
}

// TestNamesAreThoseOfTheConfiguration: after a reload, remaining names keep their counts, and other names
// disappear.
func TestNamesAreThoseOfTheConfiguration(t *testing.T) {
	c := NewCounts()
	c.SetNames(nil, []string{"a", "b"})
	c.Limit("a").Match()
	c.Limit("new").Match() // before its configuration takes effect
	c.SetNames([]string{"x"}, []string{"new", "a"})
	want := []NameTotals{{Name: "new", Matched: 1}, {Name: "a", Matched: 1}}
	testkit.Same(t, want, c.Totals().Limits, "limits")
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

// TestTopRowsIsSortAndCut: TopRows keeps the same rows as sorting everything and cutting off the rest.
func TestTopRowsIsSortAndCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		column := rapid.SampledFrom([]string{"wait", "cpu", "rate", "level", "last"}).Draw(t, "column")
		order := Orders()[column]
		few := rapid.Map(rapid.IntRange(-3, 3), func(i int) float64 { return float64(i) })
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) limiter.Row {
			return limiter.Row{
				ID:   rapid.StringN(0, 2, -1).Draw(t, "id"),
				Wait: few.Draw(t, "wait"), CPU: few.Draw(t, "cpu"), Rate: few.Draw(t, "rate"),
				Level: few.Draw(t, "level"), Last: few.Draw(t, "last"),
			}
		}), 0, 50).Draw(t, "rows")
		top := TopRows{Limit: rapid.IntRange(1, 60).Draw(t, "limit"), Order: order}
		for _, r := range rows {
			top.Offer(r)
			if len(top.rows) > 2*top.Limit {
				t.Fatalf("keeps %d rows of at most %d", len(top.rows), 2*top.Limit)
			}
		}
		want := slices.Clone(rows)
		slices.SortStableFunc(want, order)
		want = want[:min(len(want), top.Limit)]
		got := top.Sorted()
		if len(got) != len(want) || top.Seen != len(rows) {
			t.Fatalf("%d rows of %d, want %d of %d", len(got), top.Seen, len(want), len(rows))
		}
		for i := range want {
			if order(got[i], want[i]) != 0 {
				t.Fatalf("row %d (-want +got):\n%s", i, cmp.Diff(want[i], got[i]))
			}
		}
	})
}
