package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// siegeOf is a fair gate whose clients are known, for two CPUs.
func siegeOf(clients ...string) *world {
	w := newWorld(fair())
	w.acquaint(clients...)
	return w
}

func (w *world) heavy(client string) *Ticket {
	return w.Arrive(w.now, Arrival{Keys: by(client), Guess: 400 * time.Millisecond, Sure: true})
}

func (w *world) light(client string) *Ticket {
	return w.Arrive(w.now, Arrival{Keys: by(client), Guess: 20 * time.Millisecond, Sure: true})
}

func (w *world) done(t *Ticket, cost time.Duration) {
	w.Settle(w.now, t, cost)
	w.Leave(w.now, t)
}

func (w *world) expectStage(t *testing.T, what string, x *Ticket, want stage) {
	t.Helper()
	if got := w.stageOf(x); got != want {
		t.Errorf("%s: at stage %d, want %d", what, got, want)
	}
}

// TestLanesAreFIFO has a client's requests go in the order in which they came,
// though the later ones are cheaper.
func TestLanesAreFIFO(t *testing.T) {
	w := siegeOf("a")
	var xs []*Ticket
	for i := range 6 {
		guess := time.Duration(600-50*i) * time.Millisecond
		xs = append(xs, w.Arrive(w.now, Arrival{Keys: by("a"), Guess: guess, Sure: true}))
	}
	for i := range 4 {
		w.expectStage(t, fmt.Sprint("request ", i), xs[i], heavy)
		w.expectStage(t, fmt.Sprint("request ", i+2), xs[i+2], queued)
		w.done(xs[i], 400*time.Millisecond)
	}
}

// TestExpressSlots checks who gets them: four of a client, one if it lags, and
// so many of all strangers together as there are CPUs.
func TestExpressSlots(t *testing.T) {
	w := siegeOf("a", "b", "lagging", "hogs")
	count := func(client string, n int) (went int) {
		for range n {
			if w.stageOf(w.light(client)) == express {
				went++
			}
		}
		return went
	}
	w.heavy("hogs") // the slots into which light requests fall back
	w.heavy("hogs")
	w.gate.client(0, w.light("lagging")).charge(w.gate, 1)
	if n := count("lagging", 3); n != 0 {
		t.Errorf("a client that lags has %d express slots beside its first", n)
	}
	if n := count("a", 9); n != 4 {
		t.Errorf("a client has %d express slots, want 4", n)
	}
	for i := range 5 {
		w.light(fmt.Sprint("stranger ", i))
	}
	if g := w.GateState(); g.StrangerRun != 2 {
		t.Errorf("strangers have %d express slots, want 2", g.StrangerRun)
	}
	if n := count("b", 9); n != 1 {
		t.Errorf("of 8 express slots %d are left for another client, want 1", n)
	}
}

// TestStrangersAreOneFlow floods the gate with heavy requests, each from an
// address of its own, while two known clients want all they can get.
func TestStrangersAreOneFlow(t *testing.T) {
	w := siegeOf("a", "b")
	used := map[string]float64{}
	for _, c := range []string{"a", "b"} {
		w.crawl(c, 4, used, func() string { return c })
	}
	n := 0
	w.crawl("strangers", 40, used, func() string {
		n++
		return fmt.Sprint("stranger ", n)
	})
	w.run(120 * time.Second)
	// Shares of 0.1, 0.1, and 0.5 of all strangers.
	for who, want := range map[string]float64{"a": 1. / 7, "b": 1. / 7, "strangers": 5. / 7} {
		if got := used[who] / 240; math.Abs(got-want) > 0.05*want {
			t.Errorf("%s got %.3f of the machine, want %.3f", who, got, want)
		}
	}
}

// crawl has somebody ask for heavy pages on so many connections, each from the
// next of its addresses. The backend is not slowed by their number.
func (w *world) crawl(name string, connections int, used map[string]float64, address func() string) {
	const page = 400 * time.Millisecond
	var next func()
	next = func() {
		w.ask(Arrival{Keys: by(address()), Guess: page, Sure: true}, func(x *Ticket) {
			if x.Verdict().Acts() {
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

// TestGreedyClientsGetAlike has clients with one and with ten connections want
// all they can get.
func TestGreedyClientsGetAlike(t *testing.T) {
	w := siegeOf("a", "b", "c", "d")
	used := map[string]float64{}
	for i, c := range []string{"a", "b", "c", "d"} {
		w.crawl(c, 1+3*i, used, func() string { return c })
	}
	w.run(60 * time.Second)
	for c, x := range used {
		if math.Abs(x-30) > 1.5 {
			t.Errorf("%s got %.1f CPU-seconds of 120, want 30", c, x)
		}
	}
}

// TestUnderLoadFairly is the example of the original's README: one CPU, pages of a
// second, one client with two requests in parallel, one with one. No share is set.
func TestUnderLoadFairly(t *testing.T) {
	p := one(Fair, Budget{CPUs: 0.1, Burst: 3 * second})
	p.Gate = Gate{CPUs: 1}
	w := newWorld(p)
	used := map[string]int{}
	ask := func(client string) {
		var next func()
		next = func() {
			w.ask(Arrival{Keys: by(client), Guess: second, Sure: true}, func(x *Ticket) {
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
		keys := by(client)
		if client == "capped" {
			keys = by(client, "capped/24")
		}
		var next func()
		next = func() {
			w.ask(Arrival{Keys: keys, Guess: page, Sure: true}, func(x *Ticket) {
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
	deepest, tag := level(t, w, "debtor"), x.flow.tag
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
	if got := level(t, w, "debtor"); got > deepest {
		t.Errorf("the debt shrank from %g to %g", deepest, got)
	}
	if most := w.GateState().Clock + 240; math.Abs(tag-most) > 1e-9 {
		t.Errorf("the tag is %g, the furthest that one can be is %g", tag, most)
	}
	if x.flow.tag < tag-1e-9 {
		t.Errorf("the tag went back from %g to %g", tag, x.flow.tag)
	}
}

// TestMisjudgedRequestsMove checks that a request that is not light leaves its
// express slot, and one that is long its heavy one, for others.
func TestMisjudgedRequestsMove(t *testing.T) {
	w := siegeOf("a", "b", "c")
	x := w.light("a")
	w.Progress(w.now, x, 90*time.Millisecond, true)
	w.expectStage(t, "it is light still", x, express)
	w.Progress(w.now, x, 101*time.Millisecond, true)
	w.expectStage(t, "it is not light", x, heavy)
	y := w.heavy("b")
	z := w.heavy("c")
	w.expectStage(t, "there are two heavy slots", z, queued)
	w.Progress(w.now, y, 4999*time.Millisecond, true)
	w.expectStage(t, "it is not long yet", y, heavy)
	w.Progress(w.now, y, 5100*time.Millisecond, true)
	w.expectStage(t, "it is long", y, holding)
	w.expectStage(t, "its slot is free", z, heavy)
}

// TestLongJobsAreBounded checks that long jobs leave their slots until they hold
// half of the workers that are not kept.
func TestLongJobsAreBounded(t *testing.T) {
	w := siegeOf("a")
	for range 12 {
		w.Progress(w.now, w.heavy("a"), 6*time.Second, true)
	}
	if g := w.GateState(); g.Holding != 5 || g.HeavyBusy != 2 || g.Queued != 5 {
		t.Errorf("%d long jobs, %d heavy, %d wait; want 5, 2, 5", g.Holding, g.HeavyBusy, g.Queued)
	}
}

// TestHeavySlotsFollowTheUse checks the number of heavy slots as the CPU use is
// measured.
func TestHeavySlotsFollowTheUse(t *testing.T) {
	w := siegeOf("a")
	measure := func(use float64, want int) {
		t.Helper()
		w.Measure(w.now, use)
		if got := w.GateState().HeavySlots; got != want {
			t.Errorf("after %.2f: %d heavy slots, want %d", use, got, want)
		}
	}
	measure(0.1, 2) // nobody waits
	for range 30 {
		w.heavy("a")
	}
	measure(0.95, 2)
	measure(0.89, 3)
	if g := w.GateState(); g.HeavyBusy != 3 {
		t.Errorf("%d run, want 3", g.HeavyBusy)
	}
	for k := 4; k <= 11; k++ {
		measure(0.1, k)
	}
	measure(0.1, 11) // five workers are for others
	for k := 10; k >= 2; k-- {
		measure(0.98, k)
	}
	measure(1, 2)
	p := fair()
	p.Gate.Heavy = 5
	w.SetPolicy(w.now, p)
	measure(0.1, 5)
	measure(1, 5)
}

// TestStrangersUseWhatIsIdle: as long as CPUs are idle, light requests of strangers
// take heavy slots that nobody else wants. Of busy CPUs they take no more.
func TestStrangersUseWhatIsIdle(t *testing.T) {
	for use, want := range map[float64]int{0.1: 4, 0.5: 4, 0.6: 2, 0.95: 2} {
		w := siegeOf()
		w.Measure(w.now, use)
		for i := range 6 {
			w.light(fmt.Sprint("stranger ", i))
		}
		if g := w.GateState(); g.Busy != want || g.StrangerRun != 2 {
			t.Errorf("%v of the CPUs are used: %d strangers run, %d of them in express slots, want %d and 2", use, g.Busy, g.StrangerRun, want)
		}
	}
}

// TestProbe checks that of requests whose kind nobody knows one runs beside the
// heavy ones, and becomes one of those if it is.
func TestProbe(t *testing.T) {
	w := siegeOf("a", "b", "c", "d")
	unknown := func(client string) *Ticket {
		return w.Arrive(w.now, Arrival{Keys: by(client), Guess: 400 * time.Millisecond, Running: 400 * time.Millisecond})
	}
	w.heavy("a")
	w.heavy("b")
	waiting := w.heavy("c")
	x, y := unknown("c"), unknown("d")
	w.expectStage(t, "it is behind the heavy one of its client", x, queued)
	w.expectStage(t, "nobody probes yet", y, probe)
	w.Progress(w.now, y, 200*time.Millisecond, true)
	w.expectStage(t, "it is heavy", y, heavy)
	z := unknown("d")
	w.expectStage(t, "there are more heavy ones than slots", z, queued)
	w.done(y, 300*time.Millisecond)
	w.expectStage(t, "now it may probe", z, probe)
	w.expectStage(t, "this is known to be heavy", waiting, queued)
	w.done(z, time.Millisecond)
}

// TestReguess checks what becomes of waiting requests whose kind is known at last.
func TestReguess(t *testing.T) {
	w := siegeOf("a", "b", "c", "d")
	for range 2 {
		w.heavy("a")
	}
	first, second := w.heavy("b"), w.heavy("b")
	rank := second.rank
	w.Reguess(w.now, first, Estimate{Guess: 300 * time.Millisecond, Sure: true})
	w.expectStage(t, "still heavy", first, queued)
	w.Reguess(w.now, first, Estimate{Guess: 20 * time.Millisecond, Sure: true})
	w.expectStage(t, "light after all", first, express)
	if second.heap == nil || rank != 0 {
		t.Error("the next one did not become the head")
	}
	w.Reguess(w.now, second, Estimate{Guess: 20 * time.Millisecond, Sure: true})
	w.expectStage(t, "light after all", second, express)
	if v := first.Verdict(); v.Lane != Light {
		t.Errorf("its lane is %v", v.Lane)
	}
}

// TestShedding fills the queue with a flood and a few others, and checks who is
// refused.
func TestShedding(t *testing.T) {
	p := fair()
	p.MaxHeld, p.MaxHeldPerClient = 10, 8
	w := newWorld(p)
	w.acquaint("flood", "other")
	other := w.heavy("other")
	for range 8 {
		w.heavy("flood")
	}
	waits := []*Ticket{w.heavy("other"), w.heavy("other")}
	if x := w.heavy("flood"); x.Verdict().Acts() {
		t.Errorf("refused before the queue is full: %+v", x.Verdict())
	}
	last := w.heavy("flood")
	if v := last.Verdict(); v.Action != Refuse || v.Reason != ClientFull {
		t.Errorf("the ninth that waits of a client: %+v", v)
	}
	last = w.heavy("other")
	if v := last.Verdict(); v.Acts() {
		t.Errorf("not the fattest flow's request is refused: %+v", v)
	}
	if g := w.GateState(); g.Queued != 10 || g.Shed != 1 {
		t.Errorf("%d wait, %d were shed", g.Queued, g.Shed)
	}
	w.expectStage(t, "it runs", other, heavy)
	w.expectStage(t, "it waits", waits[1], queued)
}

// TestNobodyWaitsForEver checks that who has waited for MaxHold is told so.
func TestNobodyWaitsForEver(t *testing.T) {
	w := siegeOf("a", "b")
	w.heavy("a")
	w.heavy("a")
	x := w.heavy("b")
	w.run(30*second - 1)
	w.expectStage(t, "it waits", x, queued)
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

// TestObserveOnlyTells checks that nobody waits, and that the verdict says who
// would have.
func TestObserveOnlyTells(t *testing.T) {
	p := fair()
	p.Mode = Observe
	w := newWorld(p)
	w.acquaint("a")
	for i := range 30 {
		x := w.heavy("a")
		select {
		case <-x.Decided():
		default:
			t.Fatalf("request %d waits", i)
		}
		v := x.Verdict()
		if want := i >= 2; v.Acts() || v.Shadow != want || (v.Reason == Busy) != want || v.Lane != Heavy {
			t.Errorf("request %d: %+v", i, v)
		}
	}
}

// TestSharedDebt puts a network as deep into debt as it goes. Who owes nothing
// bears a quarter of that, known or not; who owes something bears it all.
func TestSharedDebt(t *testing.T) {
	p := fair()
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.2, Burst: 30 * second}})
	w := newWorld(p)
	w.acquaint("crawler", "person", "debtor")
	w.done(w.Arrive(w.now, Arrival{Keys: by("debtor", "elsewhere/24"), Guess: time.Second}), 40*time.Second)
	w.done(w.Arrive(w.now, Arrival{Keys: by("crawler", "net/24"), Guess: time.Second}), time.Hour)
	for _, c := range []struct {
		client, network string
		price           float64
	}{
		{"person", "other/24", 1},
		{"person", "net/24", 1 + debtPrice*blame},
		{"stranger", "net/24", 1 + debtPrice*blame},
		{"stranger", "other/24", 1},
		{"debtor", "net/24", 1 + debtPrice},
		{"crawler", "net/24", 1 + debtPrice},
	} {
		x := w.Arrive(w.now, Arrival{Keys: by(c.client, c.network), Guess: time.Millisecond, Sure: true})
		if got := float64(x.Verdict().Price); math.Abs(got-c.price) > 0.01 {
			t.Errorf("%s in %s: price %.2f, want %.2f", c.client, c.network, got, c.price)
		}
		w.Leave(w.now, x)
	}
}

// TestWaitAtTheGateIsShown: the time that a request waited at the gate counts into
// the average of each of its keys, whether it was let go, refused or given up.
func TestWaitAtTheGateIsShown(t *testing.T) {
	p := fair()
	p.MaxHold = 8 * time.Second
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, Burst: time.Hour}})
	for what, c := range map[string]struct {
		end  func(w *world, x *Ticket)
		want time.Duration
	}{
		"let go": {func(w *world, x *Ticket) {
			w.expectStage(t, "after a slot was free", x, heavy)
			w.run(time.Second)
			w.done(x, 400*time.Millisecond)
		}, 3 * time.Second},
		"refused":  {func(w *world, x *Ticket) {}, 8 * time.Second},
		"given up": {func(w *world, x *Ticket) { w.Leave(w.now, x) }, 3 * time.Second},
	} {
		w := newWorld(p)
		w.acquaint("hogs", "a")
		running := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
		x := w.Arrive(w.now, Arrival{Keys: by("a", "a/24"), Guess: 400 * time.Millisecond, Sure: true})
		w.run(3 * time.Second)
		if what == "let go" {
			w.done(running[0], 3*time.Second)
		}
		c.end(w, x)
		w.run(6 * time.Second)
		w.Leave(w.now, x)
		for i, key := range by("a", "a/24") {
			r, _ := w.Find(w.now, key)
			if want := c.want.Seconds() / 10; math.Abs(r.Wait-want) > 0.01*want {
				t.Errorf("%s, key %d: an average wait of %.3f s, want %.3f s", what, i, r.Wait, want)
			}
		}
		if r, _ := w.Find(w.now, by("hogs")[0]); r.Wait > 0 {
			t.Errorf("%s: who ran at once waited for %.3f s", what, r.Wait)
		}
	}
}

// TestStandingCounts checks that who has a better standing gets more, by as much.
func TestStandingCounts(t *testing.T) {
	w := siegeOf("a", "b")
	used := map[string]float64{}
	const page = 400 * time.Millisecond
	for client, standing := range map[string]float64{"a": 1, "b": 3} {
		var next func()
		next = func() {
			w.ask(Arrival{Keys: by(client), Guess: page, Sure: true, Standing: standing}, func(x *Ticket) {
				w.after(page, func() {
					used[client] += page.Seconds()
					w.done(x, page)
					next()
				})
			})
		}
		for range 4 {
			next()
		}
	}
	w.run(60 * time.Second)
	if got := used["b"] / used["a"]; math.Abs(got-3) > 0.15 {
		t.Errorf("three times the standing got %.2f times as much", got)
	}
}

// TestKnownByComing: who has been answered a few times is known as soon as it comes
// after a while, and remembered.
func TestKnownByComing(t *testing.T) {
	w := newWorld(fair())
	for range strangerAnswers {
		w.done(w.light("a"), 20*time.Millisecond)
	}
	if x := w.light("b"); x.Verdict().Known {
		t.Error("a stranger is known")
	}
	w.run(strangerFor)
	if x := w.light("a"); !x.Verdict().Known {
		t.Error("it is a stranger")
	}
	if !w.Known().has(w.elapsed(), "a") || w.Known().has(w.elapsed(), "b") {
		t.Error("of a and b, a is to be remembered")
	}
}

// TestKnownAsLongAsItComes: the memory of a client that stays does not end.
func TestKnownAsLongAsItComes(t *testing.T) {
	w := siegeOf("a")
	for range 60 {
		w.run(time.Hour)
		w.done(w.light("a"), 20*time.Millisecond)
	}
	if !w.Known().has(w.elapsed(), "a") {
		t.Error("it was forgotten")
	}
}

// TestKnownAgain checks that a client that was known is not a stranger when its
// bucket has been forgotten, as by a restart.
func TestKnownAgain(t *testing.T) {
	w := siegeOf("a")
	saved, err := w.Known().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := newWorld(fair())
	if err := again.Known().UnmarshalBinary(saved); err != nil {
		t.Fatal(err)
	}
	if x := again.heavy("a"); !x.Verdict().Known {
		t.Error("it is a stranger")
	}
	if x := again.heavy("b"); x.Verdict().Known {
		t.Error("a stranger is known")
	}
}
