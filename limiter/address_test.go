package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// homes is a fair gate whose clients may be sessions of addresses.
func homes(addresses ...string) *world {
	p := fair()
	p.MaxHold = time.Hour
	p.Classes = []ClassInfo{
		{"session", Budget{CPUs: 0.2, Burst: time.Hour}}, // nobody owes anything
		{"slash32", Budget{CPUs: 0.2, Burst: time.Hour}}, // nobody owes anything
	}
	w := newWorld(p)
	w.acquaint(addresses...)
	return w
}

// inSession is a session of an address that is as many clients.
func inSession(address string, n int, company float64) Arrival {
	return Arrival{
		Client: Key{Class: "session", ID: fmt.Sprint(address, "#", n)}, Within: host(address),
		Session: true, ClientsBehind: company, Guess: time.Second, Sure: true,
	}
}

// asFace is one of the User-Agents of an address.
func asFace(address string, face uint8) Arrival {
	return Arrival{Client: host(address), Face: face, Guess: time.Second, Sure: true}
}

// wants has somebody ask for pages of a second on so many connections.
func (w *world) wants(name string, connections int, a Arrival, used map[string]float64) {
	var next func()
	next = func() {
		w.ask(a, func(x *Ticket) {
			if x.Verdict().Refused() {
				w.Leave(w.now, x)
				w.after(time.Second, next)
				return
			}
			w.after(time.Second, func() {
				used[name]++
				w.done(x, time.Second)
				next()
			})
		})
	}
	for range connections {
		next()
	}
}

// TestSessionsWeighAsTheClientsBehindTheirAddress: sixteen sessions of an address weigh as many
// clients as it is taken for, and each of them alike.
func TestSessionsWeighAsTheClientsBehindTheirAddress(t *testing.T) {
	for _, company := range []float64{1, 2, 4} {
		w := homes("office", "home")
		used := map[string]float64{}
		for i := range 16 {
			w.wants(fmt.Sprint("office ", i), 1+i%3, inSession("office", i, company), used)
		}
		w.wants("home", 3, inSession("home", 0, 1), used)
		w.run(480 * time.Second)
		office, least, most := 0.0, math.Inf(1), 0.0
		for i := range 16 {
			x := used[fmt.Sprint("office ", i)]
			office, least, most = office+x, min(least, x), max(most, x)
		}
		if got := office / used["home"]; math.Abs(got-company) > 0.1*company {
			t.Errorf("company %v: they got %.2f times as much as one", company, got)
		}
		if most-least > 0.1*most+2 {
			t.Errorf("company %v: one session got %v, another %v", company, most, least)
		}
	}
}

// TestFewSessionsWeighAsThemselves: as long as an address has fewer sessions than it
// is taken for, each is a client like others.
func TestFewSessionsWeighAsThemselves(t *testing.T) {
	w := homes("office", "home")
	used := map[string]float64{}
	for i := range 2 {
		w.wants("office", 2, inSession("office", i, 4), used)
	}
	w.wants("home", 2, inSession("home", 0, 4), used)
	w.run(240 * time.Second)
	if got := used["office"] / used["home"]; math.Abs(got-2) > 0.1 {
		t.Errorf("two got %.2f times as much as one", got)
	}
}

// TestFacesShareTheirAddress: who has no cookie is told apart by the User-Agent: a
// crawler in the office does not hold up its people, and nobody gets more by more
// User-Agents.
func TestFacesShareTheirAddress(t *testing.T) {
	w := homes("office", "home")
	used := map[string]float64{}
	w.wants("crawler", 20, asFace("office", 3), used)
	w.wants("people", 2, asFace("office", 5), used)
	w.wants("more people", 2, asFace("office", 7), used)
	w.wants("home", 3, asFace("home", 0), used)
	w.run(480 * time.Second)
	for who, want := range map[string]float64{"crawler": 160, "people": 160, "more people": 160, "home": 480} {
		if got := used[who]; math.Abs(got-want) > 0.05*want {
			t.Errorf("%s got %v CPU-seconds, want %v", who, got, want)
		}
	}
}

// TestFacesOfTheKnownAreKnown: also those that it never showed before.
func TestFacesOfTheKnownAreKnown(t *testing.T) {
	w := homes("office")
	for face := range uint8(20) {
		x := w.Arrive(w.now, asFace("office", face))
		if x.Stranger() {
			t.Errorf("face %d is a stranger", face)
		}
		if y := w.Arrive(w.now, asFace("new", face)); !y.Stranger() {
			t.Errorf("face %d of an address that nobody knows is known", face)
		}
	}
	if x := w.Arrive(w.now, inSession("office", 0, 1)); x.Stranger() {
		t.Error("a session of a known address is a stranger")
	}
	c := w.gate.client(0, w.Arrive(w.now, asFace("office", 3)))
	if again := w.gate.client(0, w.Arrive(w.now, asFace("office", 3+faces))); c != again {
		t.Error("more User-Agents than are told apart make more clients")
	}
}
