package limiter

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// checkCopy: those that wait stand in the same lanes, heaps and order on a copy of the gate, at sites of its own.
func (s *siege) checkCopy(t fataler, r *replica) {
	g, c := s.gate, r.gate
	of := r.tickets
	for o, x := g.oldest, c.oldest; ; o, x = o.later, x.later {
		if x != of[o] {
			t.Fatalf("those that wait are in another order")
		}
		if o == nil {
			break
		}
		if x.earlier != of[o.earlier] || x.before != of[o.before] || x.behind != of[o.behind] {
			t.Fatalf("one that waits stands between others")
		}
		if l := x.lane; l == o.lane || l.first != of[o.lane.first] || l.last != of[o.lane.last] || l.n != o.lane.n || l.level != o.lane.level {
			t.Fatalf("a lane is %+v, its copy %+v", *o.lane, *l)
		}
		if (x.heap == nil) != (o.heap == nil) || x.heap != nil && (x.heap == o.heap || x.index != o.index || (*x.heap)[x.index] != x) {
			t.Fatalf("one competes in another place: %d, %d", o.index, x.index)
		}
		if x.site == o.site || x.client == o.client || x.client.site != x.site || (x.site == &c.home) != (o.site == &g.home) {
			t.Fatalf("one that waits for site %q does so for %q of the gate", o.site.name, x.site.name)
		}
	}
	if c.newest != of[g.newest] || c.patient != of[g.patient] {
		t.Fatalf("the newest, or the first that is patient, is another one")
	}
}

// TestSitesOfACopy: those of whom something waits or runs are the copy's own, as is what is no named site.
func TestSitesOfACopy(t *testing.T) {
	w := twoSites(SiteInfo{Name: "a", Mode: Fair}, SiteInfo{Name: "b", Mode: Fair}, SiteInfo{Name: "c", Mode: Fair})
	w.done(w.light("somebody"), 0)
	w.done(w.at("a", "somebody", time.Second), 0)
	running := []*Ticket{w.at("b", "x", time.Second), w.at("b", "y", time.Second)}
	waiting := w.at("c", "z", time.Second)
	w.expectPhase(t, "one too many", waiting, queued)
	shot := w.gate.snapshot(running)
	shot.meetBuckets()
	r := shot.replica()
	g, c := w.gate, r.gate
	want := []*site{&c.home, g.named["a"], r.running[0].site, r.tickets[waiting].site}
	if !slices.Equal(c.present, want) || len(g.present) != 4 || r.running[1].site != want[2] {
		t.Errorf("of %d sites that are there the copy has %d: %p, want %p", len(g.present), len(c.present), c.present, want)
	}
	if len(c.contending) != 1 || c.contending[0] != want[3] || c.contending[0].name != "c" || want[2].name != "b" || want[3] == g.named["c"] || want[2] == g.named["b"] {
		t.Errorf("of the copy's sites %p contend", c.contending)
	}
}

// TestWhoIsCopied: all, however many the hint said; but not where that keeps the gate locked for long.
func TestWhoIsCopied(t *testing.T) {
	w := siegeOf("a")
	for range 40 {
		w.another(time.Second)
	}
	for _, hint := range []int32{0, 3, 38, 2000} {
		w.gate.waiting.Store(hint)
		if n := len(w.gate.snapshot(nil).waiting); n != 38 {
			t.Errorf("of 38 that wait %d are copied, where %d seemed to", n, hint)
		}
	}
	for n, want := range map[int]bool{mostReplicated: true, mostReplicated + 1: false} {
		g := shaped()
		if g.queued = n; (g.snapshot(nil) != nil) != want {
			t.Errorf("with %d that wait the gate is copied: %t", n, !want)
		}
	}
}

// TestACopyOfWhoHasFewerAccounts: a request of whose keys some have none is copied as well.
func TestACopyOfWhoHasFewerAccounts(t *testing.T) {
	w := siegeOf("hog")
	w.heavy("hog")
	w.heavy("hog")
	x := w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("of no class"), Guess: time.Second, Sure: true})
	if o := w.Outlooks(w.now, []*Ticket{x}, nil)[0]; o.Barrier != NoRoom || o.Before != 0 {
		t.Errorf("%+v", o)
	}
}

// TestWhichEndsFirst: of those at the backend the one that is most like those of a level, and then the oldest.
func TestWhichEndsFirst(t *testing.T) {
	type at struct {
		p     phase
		r     rung
		began time.Duration
	}
	for name, x := range map[string]struct {
		of   level
		all  []at
		want int
	}{
		"the only one":                  {2, []at{{holding, 5, 9}}, 0},
		"the nearest":                   {2, []at{{computing, 4, 1}, {computing, 2, 9}, {computing, 1, 2}}, 1},
		"the nearest, which is last":    {2, []at{{computing, 4, 1}, {computing, 0, 2}, {computing, 1, 9}}, 2},
		"of those the oldest":           {2, []at{{computing, 2, 5}, {computing, 2, 3}, {computing, 2, 4}, {computing, 1, 1}}, 1},
		"of as old ones the first":      {2, []at{{computing, 1, 1}, {computing, 2, 5}, {computing, 2, 5}}, 1},
		"not the oldest, if it is less": {waitsAt(4), []at{{computing, 4, 1}, {holding, 4, 2}, {holding, 3, 1}}, 1},
	} {
		g := shaped()
		r := &replica{gate: g}
		for _, a := range x.all {
			r.running = append(r.running, &Ticket{queueEntry: queueEntry{
				phase: a.p, rung: a.r, began: a.began, site: &g.home, client: new(client), flow: &flow{share: 1, work: 1},
			}})
		}
		was := r.running[x.want]
		if r.running = slices.Clone(r.running); !r.endOne(10, x.of) || len(r.running) != len(x.all)-1 || was.phase != outside {
			t.Errorf("%s: another one ends than that in place %d", name, x.want)
		}
	}
	r := &replica{gate: shaped()}
	if r.gate.busy = 0; r.endOne(0, 0) {
		t.Error("where nobody is, one ends")
	}
}

// ledger is what is written of a request's end.
type ledger struct {
	flow, among, strangers    flow
	clock, sites              clock
	used, light, within, all  use
	site                      [6]int
	misjudged                 misjudged
	load                      load
	delayed                   ofDelayed
	busy, orphans             int
	openShare                 float64
	answers, running, wrongly int32
	waiting                   int
}

// ledgerOf is what stands there of a client, its flow and its site.
func ledgerOf(g *gate, c *client, f *flow, s *site) ledger {
	return ledger{
		flow: *f, among: s.among, strangers: s.strangers.flow, clock: s.clock, sites: g.clock,
		used: s.used, light: s.light, within: s.within, all: g.within,
		site: [...]int{s.busy, s.queued, s.long, s.longAhead, s.strangerLong, int(s.ended)}, misjudged: s.misjudged,
		load: g.load, delayed: g.delayed, busy: g.busy, orphans: g.orphans, openShare: g.openShare,
		answers: c.answers, running: c.running, wrongly: c.misjudged, waiting: g.queued,
	}
}

// TestWhatEndsOnACopy: with it, and with who goes then, the clocks, the turns and the counts are as they are at the gate
// once it has ended there as was guessed.
func TestWhatEndsOnACopy(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(1, seed))
		p := fair()
		p.Gate = Gate{CPUs: float64(1 + seed%2), Workers: []int{1, 16}[seed%2]}
		p.MaxHeld, p.MaxHeldPerClient = 512, 64
		p.Sites = []SiteInfo{{Name: "a", Mode: Fair}, {Name: "b", Share: 3, Mode: Fair}, {Name: "seen", Mode: Observe}}
		w := newWorld(p)
		var all []*Ticket
		guesses := map[*Ticket]time.Duration{}
		for range 1 + rng.IntN(12) {
			a := Arrival{
				Client: host(string(rune('a' + rng.IntN(3)))), Site: []string{"", "a", "b", "seen"}[rng.IntN(4)],
				Guess: sizes[rng.IntN(rungs)], Sure: rng.IntN(4) > 0, Proven: rng.IntN(2) == 0, Idle: []time.Duration{0, 0, time.Minute}[rng.IntN(3)],
			}
			w.now = w.now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			x := w.Arrive(w.now, a)
			if guesses[x] = a.Guess; rng.IntN(4) == 0 {
				w.Orphan(w.now, x)
			}
			all = append(all, x)
		}
		for len(all) > 0 {
			w.now = w.now.Add(time.Duration(rng.IntN(2000)) * time.Millisecond)
			running := slices.DeleteFunc(slices.Clone(all), func(x *Ticket) bool { return !w.phaseOf(x).running() })
			shot := w.gate.snapshot(running)
			shot.meetBuckets()
			r, at := shot.replica(), w.since(w.now)
			copies := slices.Clone(r.running)
			r.endOne(at, level(rng.IntN(levels)))
			i := slices.IndexFunc(copies, func(x *Ticket) bool { return !slices.Contains(r.running, x) })
			x, o := copies[i], running[i]
			r.gate.losePatience(at)
			for next, p := r.gate.next(at); next != nil; next, p = r.gate.next(at) {
				r.gate.begin(at, next, p)
			}
			all = slices.DeleteFunc(all, func(x *Ticket) bool { return x == o })
			c, f, s := o.client, o.flow, o.site
			w.done(o, guesses[o])
			if got, want := ledgerOf(r.gate, x.client, x.flow, x.site), ledgerOf(w.gate, c, f, s); got != want {
				t.Fatalf("seed %d: one of level %d ended on a copy:\n%+v, want\n%+v", seed, x.level, got, want)
			}
		}
	}
}

// TestForetoldBesideOtherSizes: who goes before a request is counted whatever its size, and what nobody knows is tried
// as soon as the pause after a dear one is over, but only then.
func TestForetoldBesideOtherSizes(t *testing.T) {
	expect := func(w *world, what string, waiting, running []*Ticket, want ...int) {
		t.Helper()
		for i, o := range w.Outlooks(w.now, waiting, running) {
			if w.expectPhase(t, what, waiting[i], queued); o.Before != want[i] {
				t.Errorf("%s: %d go before request %d, want %d", what, o.Before, i, want[i])
			}
		}
	}
	w := siegeOf("hog", "a", "b")
	running := []*Ticket{w.heavy("hog"), w.heavy("hog")}
	expect(w, "a longer one, that ranks behind a shorter", []*Ticket{w.of("b", time.Second), w.heavy("a")}, running, 1, 0)

	w = siegeOf("hog", "a", "b", "c")
	running = []*Ticket{w.heavy("hog"), w.heavy("hog")}
	unknown := func(client string, guess time.Duration) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host(client), Guess: guess})
	}
	dear := unknown("a", time.Millisecond)
	w.expectPhase(t, "an unknown one", dear, probing)
	w.Progress(w.now, dear, 150*time.Millisecond, true)
	expect(w, "in the pause", []*Ticket{unknown("b", time.Second), w.heavy("c")}, append(running, dear), 0, 0)
}
