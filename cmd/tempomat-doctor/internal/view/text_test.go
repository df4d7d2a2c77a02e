package view

import (
	"strings"
	"testing"
	"unicode"

	"tempomat/internal/testkit"

	"github.com/clipperhouse/displaywidth"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{`Mozilla/5.0 "x" (a; b)`, `Mozilla/5.0 "x" (a; b)`},
		{"\x1b[2J\u009b1m\u202egpj\r\n\x7f\xff", `\x1b[2J\u009b1m\u202egpj\r\n\x7f\xff`},
		{`a\b`, `a\\b`},
		{"検索 ä e\u0301", "検索 ä e\u0301"},
		{"e" + strings.Repeat("\u0301", 4), "e\u0301\u0301" + `\u0301\u0301`},
		{"❤\ufe0f👍\U0001f3fd\U0001f1e9\U0001f1ea\u1161", "❤" + `\ufe0f` + "👍" + `\U0001f3fd\U0001f1e9\U0001f1ea\u1161`},
	} {
		testkit.Same(t, c.want, Text(c.text), "%q", c.text)
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"abcdef", 0, "abcdef"},
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd…"},
		{"abcdef", 1, "…"},
		{"äöüß", 4, "äöüß"},
		{"äöüß", 3, "äö…"},
		{"検索", 4, "検索"},
		{"検索", 3, "検…"},
		{"検索", 2, "…"},
		{"a検", 2, "a…"},
		{"", 3, ""},
	} {
		testkit.Same(t, c.want, Cut(c.line, c.width), "%q to %d", c.line, c.width)
	}
}

// FuzzText: all texts become printable, no letter keeps more than mostMarks accents, and a cut line isn't wider than
// allowed.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "Mozilla", "\x1b[2J", "\u009b1m", "\xff\xfe", "\u202eabc", `\"'`, "検索e\u0301\u0301\u0301", "😀\U000e0001\ufe0f"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		got := Text(s)
		marks := 0
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q lets %U through", s, r)
			}
			if displaywidth.Rune(r) > 0 {
				marks = 0
			} else if marks++; marks > mostMarks {
				t.Fatalf("%q lets %d accents through", s, marks)
			}
		}
		if width > 0 && Width(Cut(got, width)) > width {
			t.Fatalf("%q cut to %d is %q", got, width, Cut(got, width))
		}
	})
}
