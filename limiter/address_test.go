package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// homes returns a gate in mode fair whose clients may be sessions of addresses.
func homes(addresses ...string) *world {
	p := fair()
	p.MaxHold = time.Hour
	p.Classes = []ClassInfo{
		{"session", Budget{CPUs: 0.2, Burst: time.Hour}}, // no key owes anything
		{"slash32", Budget{CPUs: 0.2, Burst: time.Hour}}, // no key owes anything
	}
	w := newWorld(p)
	w.acquaint(addresses...)
	return w
}

// inSession makes a request from a session of an address with the given number of clients behind it.
func inSession(address string, n int, company, person float64) Arrival {
	return Arrival{
		Client: Key{Class: "session", ID: fmt.Sprint(address, "#", n)}, Within: host(address),
		Session: true, ClientsBehind: company, Person: person, Guess: time.Second, Sure: true,
	}
}

// asFace makes a request from one of the User-Agents of an address.
func asFace(address string, face uint8) Arrival {
	return Arrival{Client: host(address), Face: face, Guess: time.Second, Sure: true}
}

// wants makes a client request pages on the given number of connections, as in loop.
func (w *world) wants(name string, connections int, a Arrival, used map[string]float64) {
	w.loop(name, connections, used, func() Arrival { return a })
}

// TestSessionsWeighAsTheClientsBehindTheirAddress: the sessions of an address together have the share of the clients
// behind it, but of no more clients than there are people among them. People have the same part each. Sessions that
// aren't a person's together have at most one client's share, so they gain nothing from people's sessions.
func TestSessionsWeighAsTheClientsBehindTheirAddress(t *testing.T) {
	for _, x := range []struct {
		people, crawlers int
		company          float64
		want, crawl      float64 // the part of all sessions and of crawlers, relative to one client's
	}{{16, 0, 1, 1, 0}, {16, 0, 2, 2, 0}, {16, 0, 4, 4, 0}, {2, 0, 4, 2, 0}, {0, 8, 8, 1, 1}, {4, 4, 8, 4, 0.5}} {
		w := homes("office", "home")
		used := map[string]float64{}
		for i := range x.people + x.crawlers {
			person := 1.0
			if i >= x.people {
				person = 0
			}
			w.wants(fmt.Sprint("office ", i), 1+i%3, inSession("office", i, x.company, person), used)
		}
		w.wants("home", 3, inSession("home", 0, 1, 1), used)
		w.run(480 * time.Second)
		office, crawl, least, most := 0.0, 0.0, math.Inf(1), 0.0
		for i := range x.people + x.crawlers {
			got := used[fmt.Sprint("office ", i)]
			if office += got; i >= x.people {
				crawl += got
			} else {
				least, most = min(least, got), max(most, got)
			}
		}
		if got := office / used["home"]; math.Abs(got-x.want) > 0.1*x.want {
			t.Errorf("%+v: the sessions got %.2f times as much as one client", x, got)
		}
		if got := crawl / used["home"]; math.Abs(got-x.crawl) > 0.1 {
			t.Errorf("%+v: the crawlers got %.2f times as much as one client", x, got)
		}
		if x.people > 0 && most-least > 0.1*most+2 {
			t.Errorf("%+v: one person got %v, another %v", x, most, least)
		}
	}
}

// TestFacesShareTheirAddress: clients without a cookie are distinguished by their User-Agents. A crawler in
// the office doesn't delay the people there, and more User-Agents don't give a client a larger share.
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

// TestFacesOfTheKnownAreKnown: if an address is known, so are User-Agents that it has never sent before.
func TestFacesOfTheKnownAreKnown(t *testing.T) {
	w := homes("office")
	for face := range uint8(20) {
		x := w.Arrive(w.now, asFace("office", face))
		if x.Stranger() {
			t.Errorf("face %d is a stranger", face)
		}
		if y := w.Arrive(w.now, asFace("new", face)); !y.Stranger() {
			t.Errorf("face %d of an unknown address is known", face)
		}
	}
	if x := w.Arrive(w.now, inSession("office", 0, 1, 1)); x.Stranger() {
		t.Error("a session of a known address is a stranger")
	}
	c := w.gate.client(0, w.Arrive(w.now, asFace("office", 3)))
	if again := w.gate.client(0, w.Arrive(w.now, asFace("office", 3+faces))); c != again {
		t.Error("User-Agents beyond those that are distinguished make more clients")
	}
}
