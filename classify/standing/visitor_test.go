package standing

import (
	"math"
	"testing"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

// TestEvidenceAtItsBounds checks when a client's evidence begins to count.
func TestEvidenceAtItsBounds(t *testing.T) {
	const now = 1_000_000
	below := func(x float32) float32 { return math.Nextafter32(x, 0) }
	for name, x := range map[string]struct {
		of   visitor
		want classify.Evidence
	}{
		"nothing":                       {visitor{}, 0},
		"enough parts":                  {visitor{parts: enoughParts}, classify.Parts},
		"too few":                       {visitor{parts: below(enoughParts)}, 0},
		"enough of each page":           {visitor{parts: 4, pages: 8}, classify.Parts},
		"too few of each page":          {visitor{parts: below(4), pages: 8}, 0},
		"a session":                     {visitor{sessions: leastSession}, classify.Cookie},
		"what is left of one":           {visitor{sessions: below(leastSession)}, 0},
		"half of the cookies came back": {visitor{sessions: 3, given: 6}, classify.Cookie},
		"fewer of them":                 {visitor{sessions: below(3), given: 6}, 0},
		"vouched for":                   {visitor{attested: 2, attestedUntil: now + 1}, classify.Attested},
		"no longer vouched for":         {visitor{attested: 2, attestedUntil: now}, 0},
	} {
		x.of.last = now
		if x.of.first == 0 {
			x.of.first = now
		}
		if got, told := x.of.evidence(now); got != x.want || told != float64(x.of.attested) {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// TestRecentEvidenceFades: recent evidence halves in ten minutes. A time in the past changes nothing.
func TestRecentEvidenceFades(t *testing.T) {
	for name, x := range map[string]struct{ of, want visitor }{
		"pages":      {visitor{pages: 8}, visitor{pages: 4}},
		"parts":      {visitor{parts: 8}, visitor{parts: 4}},
		"sessions":   {visitor{sessions: 8}, visitor{sessions: 4}},
		"cookies":    {visitor{given: 8}, visitor{given: 4}},
		"everything": {visitor{pages: 2, parts: 4, sessions: 6, given: 8}, visitor{pages: 1, parts: 2, sessions: 3, given: 4}},
	} {
		x.of.last, x.want.last = 1000, 1000+halfLife
		got := x.of
		if got.see(1000 + halfLife); got != x.want {
			t.Errorf("%s: %+v becomes %+v, want %+v", name, x.of, got, x.want)
		}
		got = x.of
		if got.see(900); got != x.of {
			t.Errorf("%s: with an earlier time, %+v becomes %+v", name, x.of, got)
		}
	}
}

// TestPagesAndTheirParts: parts count as evidence for 30 s after a page, and as its parts for 20 s.
func TestPagesAndTheirParts(t *testing.T) {
	for after, want := range map[int64]float32{0: 2, follow: 2, follow + 1: 0} {
		v := visitor{last: 1000 + after, lastPage: 1000}
		if v.part(1000+after, 2); v.parts != want {
			t.Errorf("%d s after a page, its parts count %g, want %g", after, v.parts, want)
		}
	}
	for after, want := range map[int64]int32{followSoon: 2 * followPage, followSoon + 1: followPage} {
		v := visitor{lastPage: 1000, follows: followPage}
		if v.served(1000 + after); v.follows != want {
			t.Errorf("a page %d s after another: %d parts may follow, want %d", after, v.follows, want)
		}
	}
	for after, want := range map[int64]bool{followSoon: true, followSoon + 1: false} {
		v := visitor{lastPage: 1000, follows: 1}
		testkit.Same(t, want, v.follow(1000+after), "%d s after a page, a part follows it", after)
	}
}

// TestAFloodEvictsItsLike: when more addresses come than the table has room for, it evicts only addresses without
// evidence. An address whose evidence has faded counts as one without.
func TestAFloodEvictsItsLike(t *testing.T) {
	const regular, stranger, faded = 1, 2, 3
	v := newVisitors()
	for hash, parts := range map[uint64]float32{regular: enoughParts, stranger: 0, faded: enoughParts} {
		v.with(hash, 0, func(x *visitor) { x.parts = parts })
	}
	v.with(faded, 1, func(x *visitor) { x.parts = 0 })
	for i := range uint64(mostVisitors) {
		v.with((i+1)<<8, 2, func(*visitor) {})
	}
	for hash, want := range map[uint64]bool{regular: true, stranger: false, faded: false, mostVisitors << 8: true} {
		if _, is := v.peek(hash); is != want {
			t.Errorf("%d is remembered: %t", hash, is)
		}
	}
	n := 0
	if v.each(func(*visitor) { n++ }); n > mostVisitors {
		t.Errorf("%d are remembered", n)
	}
}
