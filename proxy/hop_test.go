package proxy

import (
	"maps"
	"net/http"
	"slices"
	"testing"
)

// TestNamed has a header of which a client can name each field thousands of times.
func TestNamed(t *testing.T) {
	h := http.Header{
		"Connection": {"close, a, b ,A", "keep-alive,,cookie, missing, upgrade, content-length, x-forwarded-for, cdn-loop"},
		"A":          {"1"}, "B": {"2"}, "C": {"3"}, "Cookie": {"d"}, "Upgrade": {"e"}, "Content-Length": {"0"}, "X-Forwarded-For": {"f"}, "Cdn-Loop": {"g"},
	}
	if got := slices.Sorted(maps.Keys(named(h))); !slices.Equal(got, []string{"A", "B", "Upgrade"}) {
		t.Errorf("got %v", got)
	}
	passed := http.Header{}
	endToEnd(passed, h)
	if got := slices.Sorted(maps.Keys(passed)); !slices.Equal(got, []string{"C", "Cdn-Loop", "Content-Length", "Cookie", "X-Forwarded-For"}) {
		t.Errorf("passed on: %v", got)
	}
}
