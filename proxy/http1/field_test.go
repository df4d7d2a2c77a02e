package http1

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

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

// TestFieldsRoundTrip: a header that is written and read again stays the same.
func TestFieldsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Fields
		for i := range rapid.IntRange(0, 100).Draw(t, "fields") {
			name := rapid.SampledFrom([]string{"ETag", "etag", "Cookie", "X-A", "x-a", "Host"}).Draw(t, "name")
			if rapid.Bool().Draw(t, "of its own") {
				name = fmt.Sprintf("n%d", i)
			}
			f = append(f, Field{name, Key(name), rapid.StringMatching("[a-z]{0,3}").Draw(t, "value")})
		}
		again, err := appendFields(nil, string(f.Append(nil, nil))+"\r\n")
		if err != nil || !slices.Equal(f, again) {
			t.Fatalf("%v became %v, %v", f, again, err)
		}
	})
}
