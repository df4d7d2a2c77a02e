package telemetry

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tempomat/limiter"
)

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
