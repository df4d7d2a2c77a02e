package testkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// recorder stands for a test, and records how the test fails.
type recorder struct{ said string }

func (*recorder) Helper()                          {}
func (r *recorder) Errorf(format string, a ...any) { r.said = fmt.Sprintf(format, a...) }
func (r *recorder) Fatal(a ...any)                 { r.said = fmt.Sprint(a...) }

// TestHelpersFail: Same and Must fail a test when they should, and only then.
func TestHelpersFail(t *testing.T) {
	type hidden struct{ n *int }
	one, another, two := 1, 1, 2
	for what, c := range map[string]struct {
		does func(r *recorder)
		says string // a part of the message; empty: none
	}{
		"the same numbers":           {func(r *recorder) { Same(r, 1, one, "n") }, ""},
		"other numbers":              {func(r *recorder) { Same(r, 1, two, "%s %d", "n", 7) }, "n 7 (-want +got):"},
		"the same behind pointers":   {func(r *recorder) { Same(r, hidden{&one}, hidden{&another}, "n") }, ""},
		"different behind pointers":  {func(r *recorder) { Same(r, hidden{&one}, hidden{&two}, "n") }, "n (-want +got):"},
		"lists of different lengths": {func(r *recorder) { Same(r, []int{1}, []int{1, 2}, "n") }, "+"},
		"no error":                   {func(r *recorder) { Must(r, nil) }, ""},
		"an error":                   {func(r *recorder) { Must(r, errors.New("broken")) }, "broken"},
	} {
		var r recorder
		if c.does(&r); !strings.Contains(r.said, c.says) || c.says == "" && r.said != "" {
			t.Errorf("%s: the message is %q, want %q", what, r.said, c.says)
		}
	}
}
