package http1

import (
	"slices"
	"testing"

	"tempomat/internal/testkit"
)

// made parses lines into fields.
func made(lines ...string) (f Fields) {
	for _, line := range lines {
		x, err := parseField(line)
		if err != nil {
			panic(err)
		}
		f = append(f, x)
	}
	return f
}

// TestFields: Set keeps the position of a field and removes others with the same key. New fields come at the end.
func TestFields(t *testing.T) {
	f := made("x-A: 1", "X-a: 3", "ETag: 2", "etag: 4", "x-a: 9", "Gone: 5")
	f.Set("C", "6")
	f.Set("X-A", "7")
	f.Del("Gone")
	f.Add("C", "8")
	testkit.Same(t, lines("x-A: 7", "ETag: 2", "etag: 4", "C: 6", "C: 8", ""), string(f.Append(nil, nil)), "all fields")
	testkit.Same(t, lines("x-A: 7", "C: 6", "C: 8", ""), string(f.Append(nil, func(key string) bool { return key == "Etag" })), "without Etag")
	if f.Get("Etag") != "2" || f.Get("D") != "" || f.Has("D") || !f.Has("X-A") || !slices.Equal(f.Values("Etag"), []string{"2", "4"}) || f.Values("D") != nil {
		t.Errorf("Etag is %q, D is %q", f.Values("Etag"), f.Values("D"))
	}
}

// TestLargeOnesAreNotKept: the memory of a large list is not reused.
func TestLargeOnesAreNotKept(t *testing.T) {
	small := made("A: 1")
	if again := small.Emptied(); cap(again) != cap(small) || len(again) > 0 || small[0].Value != "" {
		t.Errorf("%v of %v is left", again, small)
	}
	longer := made("A: 1", "B: 2", "C: 3")
	if longer[:1].Emptied(); longer[2].Value != "" {
		t.Errorf("%v is left behind the end", longer)
	}
	for _, n := range []int{usualFields, usualFields + 1} {
		if again := make(Fields, n).Emptied(); (cap(again) > 0) != (n == usualFields) {
			t.Errorf("of room for %d lines that for %d is kept", n, cap(again))
		}
	}
}
