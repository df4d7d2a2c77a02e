package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// twoSites returns a gate for two CPUs with sites a and b of equal shares, whose clients are known.
func twoSites(sites ...SiteInfo) *world {
	if sites == nil {
		sites = []SiteInfo{{Name: "a"}, {Name: "b"}}
	}
	p := fair()
	p.MaxHeld, p.Sites = 512, sites
	return newWorld(p)
}

// at sends a known client's request of a known kind to a site.
func (w *world) at(site, client string, cost time.Duration) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(client), Site: site, Guess: cost, Sure: true, Proven: true})
}

// TestSiteStates: the states show what each site has used. There are none if no sites are named.
func TestSiteStates(t *testing.T) {
	w := twoSites(SiteInfo{Name: "b", Share: 3}, SiteInfo{Name: "a"})
	w.done(w.at("b", "x", time.Second), 2*time.Second)
	w.done(w.at("invented", "x", time.Second), time.Second)
	got := w.GateState().Sites
	if len(got) != 3 || got[0].Name != "a" || got[1].Name != "b" || got[1].CPU != 2 || got[1].Share != 3 || got[2].Name != OtherSites || got[2].CPU != 1 {
		t.Errorf("%+v", got)
	}
	w.at("b", "x", time.Second)
	if got := w.GateState().Sites; math.Abs(got[1].Lead-1) > 1e-9 || got[0].Lead != 0 || got[2].Lead != 0 {
		t.Errorf("a request runs at b, which should be ahead by the expected cost: %+v", got)
	}
	if s := newWorld(fair()).GateState().Sites; s != nil {
		t.Errorf("the states are %+v, although no sites are named", s)
	}
}

// TestSitesCountWaitingRequests: a site adds up how long its requests waited, whether or not they ran, and
// counts those that never ran.
func TestSitesCountWaitingRequests(t *testing.T) {
	w := twoSites()
	w.now = w.now.Add(time.Hour)
	running := []*Ticket{w.at("a", "x", time.Second), w.at("a", "y", time.Second)}
	waiting := []*Ticket{w.at("b", "x", time.Second), w.at("b", "y", time.Second), w.at("b", "z", time.Second)}
	w.run(3 * time.Second)
	w.done(running[0], time.Second)
	w.run(4 * time.Second)
	w.done(running[1], time.Second)
	w.run(23 * time.Second)
	for i, want := range []bool{false, false, true} {
		testkit.Same(t, want, waiting[i].Verdict().Refused(), "request %d: refused", i)
	}
	if b := w.GateState().Sites[1]; b.Waited != 3+7+30 || b.Refused != 1 || b.Busy != 2 || b.Queued != 0 {
		t.Errorf("after waits of 3, 7 and 30 s, the last of which ended in a refusal: %+v", b)
	}
}

// TestSiteThatGoesAndComes: if a site is removed and added again while its requests wait, it is still one site
// with one share.
func TestSiteThatGoesAndComes(t *testing.T) {
	a, b := SiteInfo{Name: "a"}, SiteInfo{Name: "b"}
	w := twoSites(a, b)
	p := fair()
	p.MaxHeld = 512
	for i := range 20 {
		gone := w.gate.named["b"]
		p.Sites = []SiteInfo{a}
		w.SetPolicy(w.now, p)
		p.Sites = []SiteInfo{a, b}
		w.SetPolicy(w.now, p)
		if again := w.gate.named["b"]; again.name != "b" || (again == gone) != (gone.queued > 0) {
			t.Errorf("site %s came back while %d requests waited; it is the same site: %t", again.name, gone.queued, again == gone)
		}
		for _, name := range []string{"b", "a"} {
			w.at(name, name+string(rune('a'+i)), time.Second)
		}
	}
	// Requests that ran when the site was first removed end as usual.
	if n, shares := len(w.gate.contending), w.gate.clock.active; n != 2 || shares > 3 {
		t.Errorf("%d sites have waiting requests, with shares of %g", n, shares)
	}
}

// TestWaitingAtARemovedSite: requests that wait at a removed site continue like those for no named site.
// Requests at the other site continue as before.
func TestWaitingAtARemovedSite(t *testing.T) {
	for mode, want := range map[Mode]phase{Observe: computing, Fair: queued} {
		w := twoSites()
		at := map[string]*Ticket{}
		for i := range 4 {
			for _, site := range []string{"a", "b"} {
				at[site] = w.at(site, site+string(rune('a'+i)), time.Second)
			}
		}
		p := fair()
		p.Mode, p.MaxHeld = mode, 512
		p.Sites = []SiteInfo{{Name: "a"}}
		w.SetPolicy(w.now, p)
		w.Advance(w.now)
		w.expectPhase(t, "the site is gone", at["b"], want)
		w.expectPhase(t, "the site remains", at["a"], want)
	}
}
