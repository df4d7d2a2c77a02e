package main

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

func TestScreenOf(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want screen
	}{
		{nil, screen{}},
		{[]string{"COLUMNS=80", "LINES=24"}, screen{80, 24}},
		{[]string{"COLUMNS=wide", "LINES=-3", "COLUMNSX=4"}, screen{}},
	} {
		if got := (&doctor{env: c.env}).screen(); got != c.want {
			t.Errorf("%q: got %v, want %v", c.env, got, c.want)
		}
	}
}

// All tables have room on the screen if a row of each has, and no line of it
// is wasted.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		has := rapid.SliceOfN(rapid.IntRange(0, 10), 1, 8).Draw(t, "rows")
		height := rapid.IntRange(0, 120).Draw(t, "height")
		var all []api.BucketsReply
		rows, least := 0, 0
		for _, n := range has {
			all = append(all, api.BucketsReply{Rows: make([]limiter.Row, n)})
			rows += n
			least += min(n, 1)
		}
		fit(all, height)
		left := 0
		for i, one := range all {
			left += len(one.Rows)
			if len(one.Rows) < min(has[i], 1) {
				t.Fatalf("table %d is left without a row", i)
			}
		}
		var d doctor
		d.printTables(all)
		besides := strings.Count(d.out.String(), "\n") - left + 2 // what is not a row, and watch's header
		want := min(rows, max(least, height-besides))
		if height == 0 {
			want = rows
		}
		if left != want {
			t.Fatalf("%v on %d lines: %d rows are left, want %d", has, height, left, want)
		}
	})
}
