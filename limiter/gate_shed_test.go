package limiter

import (
	"fmt"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestFullQueueSheds: a full queue refuses the newest request of the client with the most work. If several
// clients have equally many requests, it refuses one of the longest: that of the client that ranks last.
func TestFullQueueSheds(t *testing.T) {
	for name, x := range map[string]struct {
		ask  []string // the clients that make requests, in order; a and d are over their share; a's requests are shorter than b's and c's, d's are longer
		want int      // the index of the refused request
	}{
		"shorter request stays, came first":        {[]string{"a", "b", "c"}, 2},
		"shorter request stays, came last":         {[]string{"b", "c", "a"}, 1},
		"worst rank and longest, came first":       {[]string{"d", "b", "c"}, 0},
		"b has two requests, a has the worst rank": {[]string{"a", "b", "b"}, 2},
		"b has two requests and came first":        {[]string{"b", "b", "a"}, 1},
		"worst rank and two requests":              {[]string{"a", "a", "c"}, 1},
	} {
		p := fair()
		p.MaxHeld = 2
		w := newWorld(p)
		w.acquaint("hog", "a", "b", "c", "d")
		w.light("hog")
		w.light("hog")
		w.outrun("a")
		w.outrun("d")
		var all []*Ticket
		for _, client := range x.ask {
			all = append(all, w.of(client, map[string]time.Duration{"a": sizes[1], "b": sizes[2], "c": sizes[2], "d": sizes[3]}[client]))
		}
		for i, r := range all {
			if !testkit.Ready(r.Decided()) && i == x.want {
				t.Errorf("%s: the refusal of request %d isn't announced", name, i)
			}
			if v := r.Verdict(); v.Refused() != (i == x.want) || v.Refused() && v.Reason != ServerFull || v.Own {
				t.Errorf("%s: request %d: %+v", name, i, v)
			}
		}
		if g := w.GateState(); g.Shed != 1 || g.Queued != 2 {
			t.Errorf("%s: %d are shed, %d wait", name, g.Shed, g.Queued)
		}
	}
}

// TestPartsAreShedLast: up to mostParts parts of a client's pages stay in a full queue, however long they take. If
// the client has more, it loses parts instead of other clients' pages.
func TestPartsAreShedLast(t *testing.T) {
	p := fair()
	p.MaxHeld = mostParts + 1
	w := newWorld(p)
	w.acquaint("hog", "reader", "crawler")
	w.light("hog")
	w.light("hog")
	var parts, pages []*Ticket
	for range mostParts {
		parts = append(parts, w.Arrive(w.now, Arrival{Client: host("reader"), Guess: sizes[2], Sure: true, Follows: true}))
	}
	for range 5 {
		pages = append(pages, w.of("crawler", sizes[1]))
	}
	refused := func(all []*Ticket) (n int) {
		for _, x := range all {
			if x.Verdict().Refused() {
				n++
			}
		}
		return n
	}
	if n, m := refused(parts), refused(pages); n != 0 || m != 4 {
		t.Errorf("%d parts and %d pages are refused, want 0 and 4", n, m)
	}
	for range 2 {
		parts = append(parts, w.Arrive(w.now, Arrival{Client: host("reader"), Guess: sizes[2], Sure: true, Follows: true}))
	}
	if n, m := refused(parts), refused(pages); n != 2 || m != 4 {
		t.Errorf("%d parts and %d pages are refused, want 2 and 4", n, m)
	}
}

// TestStrangersPartsArePushedOutFirst: if strangers fill the queue with requests that look like parts of
// pages, known clients still get in. Among strangers, parts stay.
func TestStrangersPartsArePushedOutFirst(t *testing.T) {
	p := fair()
	p.MaxHeld = 40
	w := newWorld(p)
	w.acquaint("hog", "reader")
	w.light("hog")
	w.light("hog")
	part := func(i int) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host(fmt.Sprint("crawler", i)), Guess: sizes[1], Sure: true, Follows: true})
	}
	page := w.of("somebody", sizes[1])
	for i := range 39 {
		part(i)
	}
	reader := w.of("reader", sizes[2])
	if reader.Verdict().Refused() || !page.Verdict().Refused() {
		t.Errorf("a known client is refused: %t, want false; a stranger's page is refused: %t, want true", reader.Verdict().Refused(), page.Verdict().Refused())
	}
	for i := range 10 {
		part(40 + i)
	}
	if reader.Verdict().Refused() {
		t.Error("a known client is refused because of strangers' parts")
	}
}

// TestManyBehindOneAddressWait: 150 people share an unknown address, and each requests six parts of a page.
// All requests wait while the queue has room. In a full queue, they don't push out another stranger's longer page.
func TestManyBehindOneAddressWait(t *testing.T) {
	p := fair()
	p.MaxHeld = 150*7 - 2 // two requests run
	w := newWorld(p)
	office := func() *Ticket {
		w.seq++
		return w.Arrive(w.now, Arrival{Client: host("office"), Face: uint8(w.seq), Guess: sizes[0], Sure: true})
	}
	for range 150 * 7 {
		if x := office(); x.Verdict().Refused() {
			t.Fatalf("request %d: %+v", w.seq, x.Verdict())
		}
	}
	page := w.of("newcomer", sizes[2])
	if office(); page.Verdict().Refused() {
		t.Error("an office pushes out a newcomer's page")
	}
}
