package limiter

import (
	"fmt"
	"testing"
	"time"
)

// TestWhoIsShed: of the client that has the most work the newest request, of those with as much a longest one, and of
// those that of the one that ranks worst.
func TestWhoIsShed(t *testing.T) {
	for name, x := range map[string]struct {
		ask  []string // a and d are ahead of their share; a asks for shorter ones than b and c, d for longer ones
		want int      // which one is refused
	}{
		"a shorter one stays, it came first": {[]string{"a", "b", "c"}, 2},
		"a shorter one stays, it came last":  {[]string{"b", "c", "a"}, 1},
		"the worst is longest, and is first": {[]string{"d", "b", "c"}, 0},
		"the worst is longest, among others": {[]string{"b", "d", "c"}, 1},
		"one has two, the other is worst":    {[]string{"a", "b", "b"}, 2},
		"one has two, and came before":       {[]string{"b", "b", "a"}, 1},
		"the worst has two":                  {[]string{"a", "a", "c"}, 1},
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
			select {
			case <-r.Decided():
			default:
				if i == x.want {
					t.Errorf("%s: request %d is not told", name, i)
				}
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

// TestPartsAreShedLast: in a full queue the parts of pages stay, however many they are of one client, and however long; if
// nothing else waits, they go as all others do.
func TestPartsAreShedLast(t *testing.T) {
	p := fair()
	p.MaxHeld = 40
	w := newWorld(p)
	w.acquaint("hog", "reader", "crawler")
	w.light("hog")
	w.light("hog")
	var parts, pages []*Ticket
	for range 39 {
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
	if n, m := refused(parts), refused(pages); n != 1 || m != 5 {
		t.Errorf("%d parts and %d pages are refused, want 1 and 5", n, m)
	}
}

// TestStrangersPartsArePushedOutFirst: what strangers call the parts of a page fills the queue, and keeps nobody out who is
// known. Among strangers, parts stay.
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
		t.Errorf("a known client is refused: %t; a stranger's page is: %t, want true", reader.Verdict().Refused(), page.Verdict().Refused())
	}
	for i := range 10 {
		part(40 + i)
	}
	if reader.Verdict().Refused() {
		t.Error("a known client is refused for strangers' parts")
	}
}

// TestManyBehindOneAddressWait: a hundred and fifty people of an address that nobody knows, with six parts of a page each: all
// wait while the queue has room.
func TestManyBehindOneAddressWait(t *testing.T) {
	p := fair()
	p.MaxHeld = 1100
	w := newWorld(p)
	for range 150 {
		for range 7 {
			w.seq++
			if x := w.Arrive(w.now, Arrival{Client: host("office"), Face: uint8(w.seq), Guess: sizes[0], Sure: true}); x.Verdict().Refused() {
				t.Fatalf("request %d: %+v", w.seq, x.Verdict())
			}
		}
	}
}
