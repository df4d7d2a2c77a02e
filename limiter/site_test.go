package limiter

import (
	"math"
	"testing"
	"time"
)

// twoSites is a gate of two CPUs with sites a and b, of the same share, whose clients are known.
func twoSites(sites ...SiteInfo) *world {
	if sites == nil {
		sites = []SiteInfo{{Name: "a"}, {Name: "b"}}
	}
	p := fair()
	p.MaxHeld, p.Sites = 512, sites
	return newWorld(p)
}

// at has a known client ask a site for a page of a kind that is known.
func (w *world) at(site, client string, cost time.Duration) *Ticket {
	return w.Arrive(w.now, Arrival{Client: host(client), Site: site, Guess: cost, Sure: true, Proven: true})
}

// serve ends the requests that run, one after the other, for so long, and counts who was
// served.
func (w *world) serveAll(tickets *[]*Ticket, times int, cost time.Duration) (served map[string]int) {
	served = map[string]int{}
	for range times {
		for i, x := range *tickets {
			if x.phase.running() {
				served[x.site.name]++
				*tickets = append((*tickets)[:i:i], (*tickets)[i+1:]...)
				w.now = w.now.Add(cost / 2) // two CPUs
				w.done(x, cost)
				break
			}
		}
	}
	return served
}

// TestIdleSiteSavesNothing: a site for which nobody asked for a while gets its share from then
// on, and no more than that.
func TestIdleSiteSavesNothing(t *testing.T) {
	const page = 150 * time.Millisecond
	w := twoSites()
	var all []*Ticket
	for range 60 {
		for i := range 3 {
			all = append(all, w.at("a", string(rune('a'+i)), page))
		}
		w.serveAll(&all, 2, page)
	}
	for i := range 40 {
		all = append(all, w.at("b", string(rune('m'+i%10)), page))
	}
	served := w.serveAll(&all, 40, page)
	if served["a"] < 12 || served["b"] < 16 {
		t.Errorf("b came back from idleness, and of 40 requests %d were a's and %d b's", served["a"], served["b"])
	}
}

// TestOneClientAtManySites: what is remembered of a client at other sites is bounded, and its
// requests wait at each as one client's.
func TestOneClientAtManySites(t *testing.T) {
	var sites []SiteInfo
	for i := range 200 {
		sites = append(sites, SiteInfo{Name: string(rune('A' + i))})
	}
	w := twoSites(sites...)
	for range 3 {
		for _, s := range sites {
			w.done(w.at(s.Name, "wanderer", 10*time.Millisecond), 10*time.Millisecond)
		}
	}
	n := 0
	_, b := w.table.Find(0, Key{Class: "slash32", ID: "wanderer"})
	for c := b.Value.client.Load(); c != nil; c = c.elsewhere {
		n++
	}
	if n != 1+mostElsewhere {
		t.Errorf("it is remembered at %d sites", n)
	}
}

// TestSiteAheadIsTold: who waits as its site had its share is told so.
func TestSiteAheadIsTold(t *testing.T) {
	w := twoSites()
	var all []*Ticket
	for i := range 300 { // a uses the machine, and somebody is always at b
		if i%60 == 0 {
			all = append(all, w.at("b", "somebody", 2*time.Second))
		}
		all = append(all, w.at("a", string(rune('a'+i%20)), 300*time.Millisecond), w.at("a", string(rune('a'+(i+1)%20)), 300*time.Millisecond))
		w.serveAll(&all, 1, 300*time.Millisecond)
		for j, o := range w.Outlooks(w.now, all) {
			if o.Waits && o.Barrier == SiteAhead {
				if all[j].site.name != o.Site {
					t.Errorf("its site is said to be %q", o.Site)
				}
				return
			}
		}
	}
	t.Error("nobody waits as its site is ahead")
}

// TestSiteStates tell what each site used, and of none where they are not told apart.
func TestSiteStates(t *testing.T) {
	w := twoSites(SiteInfo{Name: "b", Share: 3}, SiteInfo{Name: "a"})
	w.done(w.at("b", "x", time.Second), 2*time.Second)
	w.done(w.at("invented", "x", time.Second), time.Second)
	got := w.GateState().Sites
	if len(got) != 3 || got[0].Name != "a" || got[1].Name != "b" || got[1].CPU != 2 || got[1].Share != 3 || got[2].Name != OtherSites || got[2].CPU != 1 {
		t.Errorf("%+v", got)
	}
	w.at("b", "x", time.Second)
	if got := w.GateState().Sites; math.Abs(got[1].Lead-passRung.most()) > 1e-9 || got[0].Lead != 0 || got[2].Lead != 0 {
		t.Errorf("one runs at b, which is ahead by what it was charged with at once: %+v", got)
	}
	if s := newWorld(fair()).GateState().Sites; s != nil {
		t.Errorf("%+v where there are none", s)
	}
}

// TestSitesCountWhoWaits: for how long its requests waited, whether they went or not, and how many never did.
func TestSitesCountWhoWaits(t *testing.T) {
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
		if v := waiting[i].Verdict(); v.Refused() != want {
			t.Errorf("request %d is refused: %t", i, !want)
		}
	}
	if b := w.GateState().Sites[1]; b.Waited != 3+7+30 || b.Refused != 1 || b.Busy != 2 || b.Queued != 0 {
		t.Errorf("after waits of 3, 7 and 30 s, the last in vain: %+v", b)
	}
}

// TestSiteThatGoesAndComes: a site that is removed and named again while its requests wait is one
// site, with one share.
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
			t.Errorf("site %s came back, for which %d waited: the same one: %t", again.name, gone.queued, again == gone)
		}
		for _, name := range []string{"b", "a"} {
			w.at(name, name+string(rune('a'+i)), time.Second)
		}
	}
	// What ran as it was removed for the first time ends as it was.
	if n, shares := len(w.gate.contending), w.gate.clock.active; n != 2 || shares > 3 {
		t.Errorf("%d sites want their turn, with shares of %g", n, shares)
	}
}

// TestWhoWaitsAtASiteThatIsGone goes on as what is no named site does; who waits at another one goes on as before.
func TestWhoWaitsAtASiteThatIsGone(t *testing.T) {
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
		w.expectPhase(t, "the site is there", at["a"], want)
	}
}
