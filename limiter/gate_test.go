package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestLanesAreFIFO has a client's requests of a size go in the order in which they
// came, though the later ones are cheaper.
func TestLanesAreFIFO(t *testing.T) {
	w := siegeOf("a")
	var xs []*Ticket
	for i := range 6 {
		xs = append(xs, w.of("a", time.Duration(1500-100*i)*time.Millisecond))
	}
	for i := range 4 {
		w.expectPhase(t, fmt.Sprint("request ", i), xs[i], computing)
		w.expectPhase(t, fmt.Sprint("request ", i+2), xs[i+2], queued)
		w.done(xs[i], time.Second)
	}
}

// TestLightPassesHeavy: of a client, too, the light one does not wait for the heavy
// ones that came before it.
func TestLightPassesHeavy(t *testing.T) {
	w := siegeOf("a")
	for range 9 {
		w.heavy("a")
	}
	w.expectPhase(t, "of the same client", w.light("a"), computing)
	if g := w.GateState(); g.Queued != 7 {
		t.Errorf("%d wait, want 7", g.Queued)
	}
}

// crawl has somebody ask for pages of a second on so many connections, each from the
// next of its addresses. The backend is not slowed by their number.
func (w *world) crawl(name string, connections int, used map[string]float64, address func() string) {
	const page = time.Second
	var next func()
	next = func() {
		w.ask(Arrival{Client: host(address()), Guess: page, Sure: true}, func(x *Ticket) {
			if x.Verdict().Refused() {
				w.Leave(w.now, x)
				w.after(page, next)
				return
			}
			w.after(page, func() {
				used[name] += page.Seconds()
				w.done(x, page)
				next()
			})
		})
	}
	for range connections {
		next()
	}
}

// TestUnderLoadFairly is the example of the original's README: one CPU, pages of a
// second, one client with two requests in parallel, one with one. No share is set.
func TestUnderLoadFairly(t *testing.T) {
	p := one(Fair, Budget{CPUs: 0.1, Burst: 3 * second})
	p.Gate = GateOptions{CPUs: 1}
	w := newWorld(p)
	used := map[string]int{}
	ask := func(client string) {
		var next func()
		next = func() {
			w.ask(Arrival{Client: host(client), Guess: second, Sure: true}, func(x *Ticket) {
				w.after(second, func() {
					used[client]++
					w.done(x, second)
					next()
				})
			})
		}
		next()
	}
	ask("two at a time")
	ask("two at a time")
	ask("one")
	w.run(40 * time.Second) // they are strangers at first, and one flow
	clear(used)
	w.run(200 * time.Second)
	if a, b := used["two at a time"], used["one"]; a+b < 198 || math.Abs(float64(a-b)) > 4 {
		t.Errorf("of 200 s the one got %d, the other %d", a, b)
	}
}

// TestCapBesideFair checks that a class with a cap never gets more than that,
// though the machine idles, and that others get the rest.
func TestCapBesideFair(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.5, Cap: true}})
	w := newWorld(p)
	used := map[string]float64{}
	const page = 100 * time.Millisecond
	for client, connections := range map[string]int{"capped": 6, "free": 3} {
		a := Arrival{Client: host(client), Guess: page, Sure: true}
		if client == "capped" {
			a.Others = networks("capped/24")
		}
		var next func()
		next = func() {
			w.ask(a, func(x *Ticket) {
				w.after(page, func() {
					used[client] += page.Seconds()
					w.done(x, page)
					next()
				})
			})
		}
		for range connections {
			next()
		}
	}
	w.run(60 * time.Second)
	if x := used["capped"] / 60; math.Abs(x-0.5) > 0.02 {
		t.Errorf("the capped client got %.3f CPUs, want 0.5", x)
	}
	if x := used["free"] / 60; x < 1.4 {
		t.Errorf("the other one got %.3f CPUs, want what is left", x)
	}
}

// TestCancelledRequestsWashNothing has a client at the deepest debt cancel
// requests, waiting and running, and cost less than guessed: it owes as before.
func TestCancelledRequestsWashNothing(t *testing.T) {
	w := siegeOf("debtor", "a", "b")
	x := w.heavy("debtor")
	w.heavy("a")
	w.heavy("b")
	w.Progress(w.now, x, 10*time.Hour, true)
	w.heavy("b")
	deepest, tag := credit(t, w, "debtor"), x.flow.virtualTime
	if deepest != -24 {
		t.Fatalf("the deepest debt is %g, want -24", deepest)
	}
	for range 100 {
		var some []*Ticket
		for range 5 {
			some = append(some, w.heavy("debtor"))
		}
		for _, x := range some {
			w.Leave(w.now, x)
		}
		y := w.light("debtor") // runs
		w.Leave(w.now, y)
		z := w.light("debtor")
		w.Progress(w.now, z, 50*time.Millisecond, true)
		w.done(z, 0)
	}
	if got := credit(t, w, "debtor"); got > deepest {
		t.Errorf("the debt shrank from %g to %g", deepest, got)
	}
	if most := w.GateState().Clock + 240; math.Abs(tag-most) > 1e-9 {
		t.Errorf("the tag is %g, the furthest that one can be is %g", tag, most)
	}
	if x.flow.virtualTime < tag-1e-9 {
		t.Errorf("the tag went back from %g to %g", tag, x.flow.virtualTime)
	}
}

// TestMisjudgedRequestsMove checks that a request climbs to the rung of what it
// has cost so far, makes room behind it, and never comes down.
func TestMisjudgedRequestsMove(t *testing.T) {
	w := siegeOf("a", "b", "c")
	x := w.light("a")
	for _, step := range []struct {
		ms int
		on rung
	}{{25, 0}, {26, 1}, {100, 1}, {101, 2}, {90, 2}, {401, 3}, {1601, 4}, {6401, 5}, {25601, 6}, {99999, 6}} {
		w.Progress(w.now, x, time.Duration(step.ms)*time.Millisecond, true)
		w.expectOn(t, fmt.Sprint("after ", step.ms, " ms"), x, computing, step.on)
	}
	w.done(x, time.Second)
	first, second := w.heavy("b"), w.heavy("c")
	waits := w.heavy("b")
	w.expectPhase(t, "two of its size compute", waits, queued)
	w.Progress(w.now, first, 801*time.Millisecond, true)
	w.expectPhase(t, "one of them is longer", waits, computing)
	w.expectOn(t, "the other is not", second, computing, 2)
}

// TestRoomFollowsTheUse checks how many may compute as the CPU use is measured: a
// quarter more while somebody waits and CPUs are idle, twice as many while half of
// them are, a quarter less while they are full.
func TestRoomFollowsTheUse(t *testing.T) {
	w := siegeOf("a")
	measure := func(use float64, want int) {
		t.Helper()
		w.Measure(w.now, use)
		if g := w.GateState(); g.Room != want {
			t.Errorf("after %.2f: room for %d, want %d", use, g.Room, want)
		}
	}
	measure(0.1, 2) // nobody waits
	for range 30 {
		w.another(20 * time.Second)
	}
	measure(0.95, 2)
	measure(0.89, 3)
	if g := w.GateState(); g.Computing != [rungs]int{5: 3} {
		t.Errorf("%v compute, want 3", g.Computing)
	}
	for _, n := range []int{4, 5, 6} {
		measure(0.5, n)
	}
	measure(0.44, 12) // at most: five workers are for others
	measure(0.1, 12)
	if g := w.GateState(); g.Computing != [rungs]int{5: 11} {
		t.Errorf("%v compute, want 11", g.Computing)
	}
	for _, n := range []int{9, 7, 6, 5, 4, 3, 2, 2} {
		measure(0.98, n)
	}
	p := fair()
	p.Gate.Heavy = 5
	w.SetPolicy(w.now, p)
	measure(0.1, 5)
	measure(1, 5)
	p.Gate.Heavy = 0
	w.SetPolicy(w.now, p)
	measure(0.95, 2)
}

// TestRoomGrowsForAnySize: those that are short are held up by their like as well.
func TestRoomGrowsForAnySize(t *testing.T) {
	for r, size := range sizes {
		w := siegeOf("a")
		var xs []*Ticket
		for range 4 {
			xs = append(xs, w.of("a", size))
		}
		w.expectRun(t, fmt.Sprint("of rung ", r), xs, 2)
		w.Measure(w.now, 0.5)
		w.expectRun(t, fmt.Sprint("of rung ", r, ", half of the CPUs idle"), xs, 3)
	}
}

// TestUnknownKindsAreTriedOneAtATime: of requests whose kind nobody knows one runs
// beside the others, and climbs the ladder if it turns out heavy. There is a pause
// then.
func TestUnknownKindsAreTriedOneAtATime(t *testing.T) {
	w := siegeOf("a", "b", "c", "d")
	unknown := func(client string) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host(client), Guess: 50 * time.Millisecond})
	}
	for range 2 {
		w.of("a", time.Second)
	}
	x, y := unknown("c"), unknown("d")
	w.expectPhase(t, "the first", x, probing)
	w.expectPhase(t, "the second", y, queued)
	w.Progress(w.now, x, 100*time.Millisecond, true)
	w.expectPhase(t, "it may be light still", x, probing)
	w.Progress(w.now, x, 150*time.Millisecond, true)
	w.expectOn(t, "it is not light", x, computing, 2)
	w.expectPhase(t, "at once there is a pause", y, queued)
	w.run(probePause - 1)
	w.expectPhase(t, "still", y, queued)
	w.now = w.now.Add(1)
	w.advance()
	w.expectPhase(t, "after it", y, probing)
	z := unknown("c")
	w.done(y, time.Millisecond)
	w.expectPhase(t, "the one before was light: no pause", z, probing)
}

// TestUnknownKindsThatMayBeDearAreNotTried: their like was found to be.
func TestUnknownKindsThatMayBeDearAreNotTried(t *testing.T) {
	w := siegeOf("a", "b")
	for range 2 {
		w.of("a", time.Second)
	}
	x := w.Arrive(w.now, Arrival{Client: host("b"), Guess: 10 * time.Millisecond, Running: 200 * time.Millisecond})
	w.expectPhase(t, "it waits for its turn", x, queued)
	if g := w.GateState(); g.Probes != 0 || x.level != level(unknownRung) {
		t.Errorf("it waits at level %d, %d are tried; want %d, none", x.level, g.Probes, unknownRung)
	}
}

// TestNobodyWaitsForEver checks that who has waited for MaxHold is told so.
func TestNobodyWaitsForEver(t *testing.T) {
	w := siegeOf("a", "b")
	w.heavy("a")
	w.heavy("a")
	x := w.heavy("b")
	w.run(30*second - 1)
	w.expectPhase(t, "it waits", x, queued)
	w.run(2)
	select {
	case <-x.Decided():
		if v := x.Verdict(); v.Action != Refuse || v.Reason != Busy {
			t.Errorf("verdict %+v", v)
		}
	default:
		t.Error("it still waits")
	}
}

// TestSharedDebt puts a network as deep into debt as it goes. Who owes nothing
// bears a quarter of that, known or not; who owes something bears it all.
func TestSharedDebt(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.2, Burst: 30 * second}})
	w := newWorld(p)
	w.acquaint("crawler", "person", "debtor")
	owesNothing := w.Arrive(w.now, Arrival{Client: host("person"), Others: networks("quiet/24"), Guess: time.Millisecond, Sure: true})
	w.Leave(w.now, owesNothing)
	base := float64(owesNothing.Verdict().CostMultiplier)
	w.done(w.Arrive(w.now, Arrival{Client: host("debtor"), Others: networks("elsewhere/24"), Guess: time.Second}), 40*time.Second)
	w.done(w.Arrive(w.now, Arrival{Client: host("crawler"), Others: networks("net/24"), Guess: time.Second}), time.Hour)
	for _, c := range []struct {
		client, network string
		costMultiplier  float64
	}{
		{"person", "other/24", 0},
		{"person", "net/24", debtMultiplier * inheritedDebt},
		{"stranger", "net/24", debtMultiplier * inheritedDebt},
		{"stranger", "other/24", 0},
		{"debtor", "net/24", debtMultiplier},
		{"crawler", "net/24", debtMultiplier},
	} {
		x := w.Arrive(w.now, Arrival{Client: host(c.client), Others: networks(c.network), Guess: time.Millisecond, Sure: true})
		if got := float64(x.Verdict().CostMultiplier) - base; math.Abs(got-c.costMultiplier) > 0.01 {
			t.Errorf("%s in %s: debt adds %.2f to the price, want %.2f", c.client, c.network, got, c.costMultiplier)
		}
		w.Leave(w.now, x)
	}
}
