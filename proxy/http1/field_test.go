package http1

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// made makes fields of lines as they are written.
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

// TestFields: what is set again stays where it is, and is there once; what is new comes at the end.
func TestFields(t *testing.T) {
	f := made("x-A: 1", "ETag: 2", "X-a: 3", "etag: 4", "Gone: 5")
	f.Set("C", "6")
	f.Set("X-A", "7")
	f.Del("Gone")
	f.Add("C", "8")
	if got, want := string(f.Append(nil, nil)), lines("x-A: 7", "ETag: 2", "etag: 4", "C: 6", "C: 8", ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := string(f.Append(nil, func(key string) bool { return key == "Etag" })), lines("x-A: 7", "C: 6", "C: 8", ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if f.Get("Etag") != "2" || f.Get("D") != "" || f.Has("D") || !slices.Equal(f.Values("Etag"), []string{"2", "4"}) || f.Values("D") != nil {
		t.Errorf("Etag is %q, D is %q", f.Values("Etag"), f.Values("D"))
	}
}

// TestLargeOnesAreNotKept: what a client made large takes no memory from then on.
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

func TestAnnounced(t *testing.T) {
	many := strings.Repeat("a, b, ", 1<<10)
	for i := range FewTrailers {
		many += fmt.Sprintf("n%d,", i)
	}
	for name, c := range map[string]struct {
		fields Fields
		want   []string
	}{
		"none":    {made("A: b"), nil},
		"nothing": {made("Trailer:  , ,"), nil},
		"two":     {made("Trailer: x-sum, Etag,x-sum"), []string{"X-Sum", "Etag"}},
		"lines":   {made("Trailer: A,", "a: b", "trailer: b"), []string{"A", "B"}},
	} {
		if got := c.fields.Announced(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if n := len(made("Trailer: " + many).Announced()); n != FewTrailers {
		t.Errorf("%d are announced", n)
	}
}

// TestFieldsRoundTrip: what is written of a header that was read is read as the same one.
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
