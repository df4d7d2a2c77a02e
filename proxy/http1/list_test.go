package http1

import (
	"fmt"
	"net/http"
	"testing"
)

// TestList: what is set again stays where it is, and what is new comes at the end.
func TestList(t *testing.T) {
	l := List{{Name{"x-A", "X-A"}, []string{"1"}}, line("B", "2")}
	l.Set("C", []string{"3"})
	l.Set("X-A", []string{"4", "5"})
	if got, want := string(l.append(nil, skipsNone)), lines("x-A: 4", "x-A: 5", "B: 2", "C: 3", ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if l.Get("X-A")[0] != "4" || l.Get("B")[0] != "2" || l.Get("D") != nil {
		t.Errorf("X-A is %q, B is %q, D is %q", l.Get("X-A"), l.Get("B"), l.Get("D"))
	}
}

// TestLargeOnesAreNotKept: what a client made large takes no memory, nor time, from then on.
func TestLargeOnesAreNotKept(t *testing.T) {
	small := List{line("A", "1")}
	if again := small.Emptied(); cap(again) != cap(small) || len(again) > 0 || small[0].Values != nil {
		t.Errorf("%v of %v is left", again, small)
	}
	for _, n := range []int{2 * UsualFields, 2*UsualFields + 1} {
		if again := make(List, n).Emptied(); (cap(again) > 0) != (n == 2*UsualFields) {
			t.Errorf("of room for %d lines that for %d is kept", n, cap(again))
		}
	}
	h := http.Header{"A": {"1"}}
	if Emptied(h); len(h) > 0 {
		t.Error("a small header is not used again")
	}
	for _, n := range []int{UsualFields, UsualFields + 1} {
		for i := range n {
			h[fmt.Sprint(i)] = nil
		}
		if again := Emptied(h); len(again) > 0 || (len(h) == 0) != (n == UsualFields) {
			t.Errorf("of %d fields %d are left, and %d in what is used", n, len(h), len(again))
		}
	}
}
