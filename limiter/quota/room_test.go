package quota

import (
	"strconv"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestMakeRoom: a full store looks at eight buckets. It drops those that have expired, and in any case the one
// that expires first.
func TestMakeRoom(t *testing.T) {
	for name, c := range map[string]struct {
		most, buckets int
		at            int64 // bucket i expires at i
		left          int
		gone, stays   int
	}{
		"room for one more":            {most: 9, buckets: 8, at: 100, left: 8, gone: -1, stays: 0},
		"full":                         {most: 8, buckets: 8, at: 0, left: 7, gone: 0, stays: 1},
		"some have expired":            {most: 8, buckets: 8, at: 4, left: 4, gone: 3, stays: 4},
		"expires at this moment":       {most: 4, buckets: 4, at: 1, left: 3, gone: 0, stays: 1},
		"all expired, eight looked at": {most: 50, buckets: 50, at: 100, left: 42, gone: -1, stays: -1},
	} {
		s := NewMemoryStore(c.most)
		key := func(i int) memoryKey { return memoryKey{name: "n", actor: strconv.Itoa(i)} }
		for i := range c.buckets {
			s.buckets[key(i)] = memoryBucket{expires: int64(i)}
		}
		s.makeRoomLocked(c.at)
		testkit.Same(t, c.left, len(s.buckets), "%s: left", name)
		if _, ok := s.buckets[key(c.gone)]; ok {
			t.Errorf("%s: %d is still there", name, c.gone)
		}
		if _, ok := s.buckets[key(c.stays)]; !ok && c.stays >= 0 {
			t.Errorf("%s: %d is gone", name, c.stays)
		}
	}
}

// TestExpires: a bucket stays the same until the end of its lifetime. After that, a new bucket replaces it,
// whose drips count from then on.
func TestExpires(t *testing.T) {
	b := Bucket{Size: 1, DripRate: 300, DripSize: 1} // kept for a second
	start := time.UnixMilli(1e12)
	for after, want := range map[time.Duration]time.Duration{
		time.Second: 200 * time.Millisecond, time.Second + time.Millisecond: 300 * time.Millisecond,
	} {
		m := NewMemoryStore(1)
		for _, at := range []time.Time{start, start.Add(after)} {
			got, err := m.Check(t.Context(), at, "a", "n", b, 1)
			if err != nil || got.Blocked {
				t.Fatal(got, err)
			}
			if at != start && got.Reset != want {
				t.Errorf("%v later, the next request passes in %v, want %v", after, got.Reset, want)
			}
		}
	}
}

// TestLeastRoom: if several rules match, the classic fields report the one with the least room. If several have
// equally little, the fields report the first of them.
func TestLeastRoom(t *testing.T) {
	for name, c := range map[string]struct {
		stand []Status
		want  string
	}{
		"the second one":  {[]Status{{Remaining: 2, FullReset: 1e9}, {Remaining: 1, FullReset: 2e9}}, "2.000"},
		"the first one":   {[]Status{{Remaining: 1, FullReset: 1e9}, {Remaining: 2, FullReset: 2e9}}, "1.000"},
		"both":            {[]Status{{Remaining: 1, FullReset: 1e9}, {Remaining: 1, FullReset: 2e9}}, "1.000"},
		"the blocked one": {[]Status{{Remaining: 0, FullReset: 1e9}, {Remaining: 1, FullReset: 2e9, Blocked: true}}, "2.000"},
	} {
		var s standings
		for _, is := range c.stand {
			s.add("n", Bucket{Size: 9, DripRate: 1, DripSize: 1}, is)
		}
		if got := s.fields(Classic)["X-RateLimit-Clear"]; len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"": `""`, " !~}": `" !~}"`, "\x1f\x7f\n": `"???"`, "\u00e4\u202e": `"??"`, `a"b\c`: `"a\"b\\c"`,
	} {
		testkit.Same(t, want, quoted(text), "%q becomes", text)
	}
}

func TestDraftFields(t *testing.T) {
	var s standings
	s.add(`log "in"`, Bucket{Size: 10, DripRate: 1500, DripSize: 4}, Status{Remaining: 3, FullReset: 2500 * time.Millisecond})
	want := map[string][]string{"RateLimit-Policy": {`"log \"in\"";q=10;qu="requests";w=5`}, "RateLimit": {`"log \"in\"";r=3;t=3`}}
	testkit.Same(t, want, s.fields(Draft), "fields")
}
