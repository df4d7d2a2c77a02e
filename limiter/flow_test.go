package limiter

import (
	"testing"
	"time"

	"tempomat/limiter/known"
)

// TestKnownClientsAreStoredAgain: a known client is stored again before it expires, but not with each request.
func TestKnownClientsAreStoredAgain(t *testing.T) {
	const renew = time.Hour
	for at, want := range map[time.Duration]bool{renew - 1: false, renew: true, 2 * renew: true} {
		w := newWorld(fair())
		x := w.light("a")
		x.client.known, x.client.renew = true, renew
		next := renew
		if want {
			next = at + known.Renew
		}
		if w.gate.noteSeen(at, x); x.client.renew != next || w.Known().Has(at, "a") != want {
			t.Errorf("at %v the client was stored: %t; the next time is %v, want %v", at, !want, x.client.renew, next)
		}
	}
}

// TestASessionIsKnownOnceItsAddressIs: with several sites, even a session that existed before its address
// became known is known from then on.
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
		t.Error("a new session is known")
	}
	for range strangerAnswers {
		ask(false)
	}
	w.run(strangerFor)
	if !ask(false).Verdict().Known {
		t.Error("the session's address is a stranger")
	}
	if !ask(true).Verdict().Known {
		t.Error("the session is a stranger, although its address is known")
	}
}

// TestClientsKnownElsewhereAreKnown: if another instance knows a client, the client is known here from its next
// request on. Its Row shows this even earlier.
func TestClientsKnownElsewhereAreKnown(t *testing.T) {
	var all []*world
	var exchanges []*known.Exchange
	for range 3 {
		w, x := newWorld(fair()), known.NewExchange()
		w.Known().Share(x, [16]byte{1})
		x.SetKeys([32]byte{1}, [32]byte{1})
		all, exchanges = append(all, w), append(exchanges, x)
	}
	ask := func(w *world, id string) bool {
		x := w.Arrive(w.now, Arrival{Client: host(id), Guess: time.Millisecond, Sure: true})
		w.done(x, 0)
		return x.Verdict().Known
	}
	here, there := all[0], all[1]
	for range strangerAnswers {
		ask(here, "a")
	}
	here.run(strangerFor)
	there.run(strangerFor - time.Second)
	if ask(there, "a") || !ask(here, "a") {
		t.Fatal("the client is known before the other instance reported it, or isn't known where it has been for long enough")
	}
	if r, _ := there.Find(there.now, host("a")); r.Client == nil || r.Client.Known {
		t.Errorf("the client's Row says that it is known too early: %+v", r.Client)
	}
	for _, p := range exchanges[0].Pack(here.now) {
		exchanges[1].Learn(here.now, p)
		exchanges[2].Learn(here.now, p)
	}
	if r, found := all[2].Find(here.now, host("a")); found || r.Client == nil || *r.Client != (ClientRow{Known: true, Standing: 1}) {
		t.Errorf("where the client never was, its Row says %+v, found %t", r.Client, found)
	}
	if r, _ := there.Find(there.now, host("a")); !r.Client.Known {
		t.Error("the client's Row doesn't say that it is known")
	}
	if !ask(there, "a") {
		t.Error("the client is a stranger at the other instance")
	}
	if ask(there, "b") {
		t.Error("another client is known")
	}
}
