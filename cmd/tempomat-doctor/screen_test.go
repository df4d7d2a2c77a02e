package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"tempomat/limiter"
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
		if got := screenOf(new(strings.Builder), c.env); got != c.want {
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
		var all []table
		rows, least := 0, 0
		for _, n := range has {
			all = append(all, table{rows: make([]limiter.Row, n)})
			rows += n
			least += min(n, 1)
		}
		fit(all, height)
		left := 0
		for i, one := range all {
			left += len(one.rows)
			if len(one.rows) < min(has[i], 1) {
				t.Fatalf("table %d is left without a row", i)
			}
		}
		var out strings.Builder
		if err := printTables(&out, all, 0); err != nil {
			t.Fatal(err)
		}
		besides := strings.Count(out.String(), "\n") - left + 2 // what is not a row, and watch's header
		want := min(rows, max(least, height-besides))
		if height == 0 {
			want = rows
		}
		if left != want {
			t.Fatalf("%v on %d lines: %d rows are left, want %d", has, height, left, want)
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"abcdef", 0, "abcdef"},
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd~"},
		{"abcdef", 1, "~"},
		{"äöüß", 4, "äöüß"},
		{"äöüß", 3, "äö~"},
		{"検索", 4, "検索"},
		{"検索", 3, "検~"},
		{"検索", 2, "~"},
		{"a検", 2, "a~"},
		{"", 3, ""},
	} {
		if got := cut(c.line, c.width); got != c.want {
			t.Errorf("%q to %d: got %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

// Whatever a client sends, nothing but printable letters reaches the terminal.
func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "Mozilla", "\x1b[2J", "\u009b1m", "\xff\xfe", "\u202eabc", `\"'`, "a\r\nb", "😀\U000e0001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := printable(s)
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q lets %U through", s, r)
			}
		}
		document, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		plain := plainJSON(document)
		for _, r := range plain {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q lets %U through", document, r)
			}
		}
		var back string
		if err := json.Unmarshal([]byte(plain), &back); err != nil || utf8.ValidString(s) && back != s {
			t.Fatalf("%q came back as %q, %v", s, back, err)
		}
	})
}
