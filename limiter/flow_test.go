package limiter

import (
	"testing"
	"time"
)

// TestWhoIsKnownIsRememberedAnew before the memory of it ends, and not with each request.
func TestWhoIsKnownIsRememberedAnew(t *testing.T) {
	const renew = time.Hour
	for at, want := range map[time.Duration]bool{renew - 1: false, renew: true, 2 * renew: true} {
		w := newWorld(fair())
		x := w.light("a")
		x.client.known, x.client.renew = true, renew
		next := renew
		if want {
			next = at + renewKnown
		}
		if w.gate.noteSeen(at, x); x.client.renew != next || w.Known().Has(at, "a") != want {
			t.Errorf("at %v it was remembered: %t, and will be at %v, want %v", at, !want, x.client.renew, next)
		}
	}
}

// TestASessionIsKnownOnceItsAddressIs: also one that was there before, where sites are told apart.
func TestASessionIsKnownOnceItsAddressIs(t *testing.T) {
	p := fair()
	p.Classes, p.Sites = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, Burst: time.Hour}}), []SiteInfo{{Name: "a"}}
	w := newWorld(p)
	ask := func(session bool) *Ticket {
		a := Arrival{Client: networks("a")[0], Site: "a", Guess: time.Millisecond, Sure: true}
		if session {
			a = Arrival{Client: host("session"), Session: true, Within: networks("a")[0], Site: "a", Guess: time.Millisecond, Sure: true}
		}
		x := w.Arrive(w.now, a)
		w.done(x, 0)
		return x
	}
	if ask(true).Verdict().Known {
		t.Error("a session that is new is known")
	}
	for range strangerAnswers {
		ask(false)
	}
	w.run(strangerFor)
	if !ask(false).Verdict().Known {
		t.Error("its address is a stranger")
	}
	if !ask(true).Verdict().Known {
		t.Error("the session is a stranger, though its address is known")
	}
}
