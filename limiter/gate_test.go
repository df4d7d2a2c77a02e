package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestLanesAreFIFO: a client's requests of one size start in order of arrival, even if later ones are cheaper.
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

// TestUnderLoadFairly plays the example in the original's README. It has one CPU, pages of one second, and two
// clients: one sends two requests in parallel, the other sends one at a time. No share is configured.
func TestUnderLoadFairly(t *testing.T) {
	p := one(Fair, Budget{CPUs: 0.1, Burst: 3 * second})
	p.Gate = GateOptions{CPUs: 1}
	w := newWorld(p)
	used := map[string]float64{}
	w.wants("two", 2, Arrival{Client: host("two at a time"), Guess: second, Sure: true}, used)
	w.wants("one", 1, Arrival{Client: host("one"), Guess: second, Sure: true}, used)
	w.run(40 * time.Second) // at first, the clients are strangers, which share one flow
	clear(used)
	w.run(200 * time.Second)
	if a, b := used["two"], used["one"]; a+b < 198 || math.Abs(a-b) > 4 {
		t.Errorf("of 200 s, one client got %g and the other %g", a, b)
	}
}

// TestCapNextToFair checks that a capped class never gets more than its cap, even while the machine is idle,
// and that other clients get the rest.
func TestCapNextToFair(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.5, Cap: true}})
	w := newWorld(p)
	used := map[string]float64{}
	free := Arrival{Client: host("free"), Guess: 100 * time.Millisecond, Sure: true}
	capped := free
	capped.Client, capped.Others = host("capped"), networks("capped/24")
	w.wants("capped", 6, capped, used)
	w.wants("free", 3, free, used)
	w.run(60 * time.Second)
	if x := used["capped"] / 60; math.Abs(x-0.5) > 0.02 {
		t.Errorf("the capped client got %.3f CPUs, want 0.5", x)
	}
	if x := used["free"] / 60; x < 1.4 {
		t.Errorf("the other client got %.3f CPUs, want the rest", x)
	}
}

// TestCancelledRequestsWashNothing: a client at the deepest debt cancels waiting and running requests, and
// some of its requests cost less than guessed. It still owes as much as before.
func TestCancelledRequestsWashNothing(t *testing.T) {
	w := siegeOf("debtor", "a", "b")
	x := w.heavy("debtor")
	w.heavy("a")
	w.heavy("b")
	most := w.GateState().Clock + 240
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
		y := w.light("debtor") // this request runs
		w.Leave(w.now, y)
		z := w.light("debtor")
		w.Progress(w.now, z, 50*time.Millisecond, true)
		w.done(z, 0)
	}
	if got := credit(t, w, "debtor"); got > deepest {
		t.Errorf("the debt shrank from %g to %g", deepest, got)
	}
	if math.Abs(tag-most) > 1e-9 {
		t.Errorf("the client's virtual time is %g, want at most %g", tag, most)
	}
	if x.flow.virtualTime < tag-1e-9 {
		t.Errorf("the client's virtual time went back from %g to %g", tag, x.flow.virtualTime)
	}
}

// TestRunningRequestsAreServed: the clock advances while a request runs, and at the request's end only by the
// rest of its cost. A client therefore isn't over its share because another client's request takes long.
func TestRunningRequestsAreServed(t *testing.T) {
	w := siegeOf("a", "b")
	x := w.heavy("a")
	w.heavy("b")
	start := w.GateState().Clock
	for _, step := range []struct {
		cost  time.Duration
		clock float64 // how far 0.5 CPU-seconds move the clock of two clients
		ends  bool
	}{{500 * time.Millisecond, 2.5, false}, {500 * time.Millisecond, 2.5, false}, {400 * time.Millisecond, 2.5, false}, {time.Second, 5, true}} {
		if step.ends {
			w.done(x, step.cost)
		} else {
			w.Progress(w.now, x, step.cost, true)
		}
		if got := w.GateState().Clock - start; math.Abs(got-step.clock) > 1e-9 {
			t.Errorf("after %v, at the end %t: the clock advanced by %g, want %g", step.cost, step.ends, got, step.clock)
		}
	}
}

// TestMisjudgedRequestsMove checks that a request climbs to the rung of its cost so far, makes room for
// requests behind it, and never moves down.
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
	w.Limiter.Progress(w.now, first, 801*time.Millisecond, true)
	w.expectPhase(t, "one of them is longer, and waiting requests aren't estimated again", waits, queued)
	w.advance()
	w.expectPhase(t, "one of them is longer", waits, computing)
	w.expectOn(t, "the other isn't longer", second, computing, 2)
}

// TestAConfiguredRoomIsFixed: the room follows the CPU use, unless its size is configured.
func TestAConfiguredRoomIsFixed(t *testing.T) {
	w := siegeOf("a")
	for range 30 {
		w.another(20 * time.Second)
	}
	p := fair()
	for _, step := range []struct {
		heavy int
		use   float64
		want  int
	}{{0, 0.89, 3}, {0, 0.98, 2}, {5, 0.1, 5}, {5, 1, 5}, {0, 0.95, 2}} {
		p.Gate.Heavy = step.heavy
		w.SetPolicy(w.now, p)
		w.Measure(w.now, step.use)
		testkit.Same(t, step.want, w.GateState().Room, "%+v: room", step)
	}
}

// TestRoomGrowsForAnySize: the room also grows for short requests that wait for others of their size.
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

// TestUnknownKindsAreTriedOneAtATime: one request of an unknown kind runs as a probe, and climbs the ladder if
// it turns out to be expensive. Then the next one may be a probe.
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
	w.expectPhase(t, "the second may still be light", x, probing)
	w.Progress(w.now, x, 150*time.Millisecond, true)
	w.expectOn(t, "the second isn't light", x, computing, 2)
	w.expectPhase(t, "the first is no longer a probe", y, probing)
	z := unknown("c")
	w.done(y, time.Millisecond)
	w.expectPhase(t, "the previous probe was light", z, probing)
}

// TestKindsThatMayBeExpensiveAreNotTried: a request doesn't become a probe if others of its kind turned out to
// be expensive.
func TestKindsThatMayBeExpensiveAreNotTried(t *testing.T) {
	w := siegeOf("a", "b")
	for range 2 {
		w.of("a", time.Second)
	}
	x := w.Arrive(w.now, Arrival{Client: host("b"), Guess: 10 * time.Millisecond, Running: 200 * time.Millisecond})
	w.expectPhase(t, "the request waits for its turn", x, queued)
	if g := w.GateState(); g.Probes != 0 || x.level != level(briefRung) {
		t.Errorf("the request waits at level %d next to %d probes; want %d, 0", x.level, g.Probes, briefRung)
	}
}

// TestSharedDebt puts a network into the deepest debt. A client that owes nothing bears a quarter of it,
// whether or not the client is known. A client that owes something bears all of it.
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
			t.Errorf("%s in %s: debt multiplies the cost by %.2f, want %.2f", c.client, c.network, got, c.costMultiplier)
		}
		w.Leave(w.now, x)
	}
}
