package limiter

import (
	"fmt"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// inDebt returns a world of one mode, in which a key is in debt. A request of one second would have to wait
// until the debt is paid.
func inDebt(m Mode, debt time.Duration, change func(*Policy)) *world {
	p := one(m, Budget{CPUs: 1})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1}})
	if change != nil {
		change(&p)
	}
	w := newWorld(p)
	w.Debit(w.now, Charge{Key: host("a"), Cost: debt})
	return w
}

func TestWaitersLeaveInOrderAtTheKeysPace(t *testing.T) {
	w := inDebt(Cap, 2*second, nil)
	var order []string
	for i := range 4 {
		w.after(time.Duration(i)*time.Millisecond, func() {
			w.ask(Arrival{Client: host("a"), Guess: second}, func(*Ticket) {
				order = append(order, fmt.Sprintf("%d at %v", i, w.elapsed().Round(100*time.Millisecond)))
			})
		})
	}
	w.run(20 * second)
	// No request ends here, so the charge for each start is paid before the next one starts.
	want := []string{"0 at 2s", "1 at 3s", "2 at 4s", "3 at 5s"}
	testkit.Same(t, want, order, "left")
}

func TestWaiterLeavesAtOnceWithItsClient(t *testing.T) {
	w := inDebt(Cap, 2*second, nil)
	first := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
	var at time.Duration
	w.ask(Arrival{Client: host("a"), Guess: second}, func(*Ticket) { at = w.elapsed() })
	w.after(second, func() { w.Leave(w.now, first) })
	w.run(10 * second)
	testkit.Same(t, 2*second, at.Round(100*time.Millisecond), "when the second one starts in place of the first")
	testkit.Same(t, 0, w.Held(), "held")
}

// If a client disconnects at the moment when its request is released, the request never ran, and its charge is
// given back.
func TestReleasedButGoneIsGivenBack(t *testing.T) {
	w := inDebt(Cap, 2*second, nil)
	ticket := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
	w.run(2 * second)
	if credit(t, w, "a") >= 0 {
		t.Fatal("not charged when released")
	}
	w.Leave(w.now, ticket)
	if got := credit(t, w, "a"); got < -1e-6 {
		t.Errorf("level %v, want no debt", got)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		mode   Mode
		debt   time.Duration
		change func(*Policy)
		before int // requests that are already held
		want   Verdict
	}{
		"cap: too long":          {mode: Cap, debt: 40 * second, want: Verdict{Wait: 40 * second, Key: host("a"), Action: Refuse, Reason: Debt}},
		"debt of those in front": {mode: Cap, debt: 20 * second, before: 11, want: Verdict{Wait: 31 * second, Key: host("a"), Action: Refuse, Reason: Debt}},
		"observe":                {mode: Observe, debt: 40 * second, want: Verdict{Undelayed: true}},
		"shadow": {
			mode: Cap, debt: 40 * second, change: func(p *Policy) { p.Shadow = true },
			want: Verdict{
				Wait: 40 * second, Key: host("a"), Action: Refuse, Reason: Debt, Shadow: true,
				Would: Would{host("a"), 40 * second, Refuse},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inDebt(c.mode, c.debt, c.change)
			for range c.before {
				w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
			}
			keys := w.Keys()
			ticket := w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("a/24"), Guess: second})
			if !testkit.Ready(ticket.Decided()) {
				t.Fatal("the request waits, want a verdict at once")
			}
			got := ticket.Verdict()
			got.Known, got.Ahead, got.CostMultiplier = false, false, 0 // the gate sets these, and mode observe also uses it
			testkit.Same(t, c.want, got, "verdict")
			if got := ticket.Verdict().Refused(); got && w.Keys() != keys {
				t.Error("a refused request made a key")
			}
			w.Leave(w.now, ticket)
		})
	}
}

// TestFullRoomRefusesTheLongestQueue: one client may fill the room. Other clients' requests then replace some
// of its requests.
func TestFullRoomRefusesTheLongestQueue(t *testing.T) {
	w := inDebt(Cap, 2*second, func(p *Policy) { p.MaxHeld = 4 })
	w.Debit(w.now, Charge{Key: host("b"), Cost: 2 * second})
	wait := func(client string) *Ticket {
		return w.Arrive(w.now, Arrival{Client: host(client), Guess: second})
	}
	var many []*Ticket
	for range 4 {
		many = append(many, wait("a"))
	}
	one := wait("b")
	expect := func(name string, x *Ticket, refused bool) {
		t.Helper()
		if !testkit.Ready(x.Decided()) && refused {
			t.Errorf("%s isn't notified", name)
		}
		if v := x.Verdict(); v.Refused() != refused || refused && (v.Reason != ServerFull || v.Key != host("a")) {
			t.Errorf("%s: %+v, refused %t wanted", name, v, refused)
		}
	}
	expect("the newest of the many", many[3], true)
	expect("the second newest of the many", many[2], false)
	expect("another client's request", one, false)
	expect("one more of the many", wait("a"), true)
}

func TestWaitEndsAtMaxHold(t *testing.T) {
	w := inDebt(Cap, 29*second, nil)
	var verdict Verdict
	var at time.Duration
	w.ask(Arrival{Client: host("a"), Guess: second}, func(t *Ticket) { verdict, at = t.Verdict(), w.elapsed() })
	w.run(second)
	w.Debit(w.now, Charge{Key: host("a"), Cost: 60 * second}) // a peer's report increases the debt
	w.run(60 * second)
	if verdict.Action != Refuse || verdict.Reason != Debt || at.Round(100*time.Millisecond) != 30*second {
		t.Errorf("%+v at %v, want refused for debt at 30s", verdict, at)
	}
	testkit.Same(t, 0, w.Held(), "held")
}

// If two keys block a request, it waits for both. In the queue of the second key, it waits in order of arrival.
func TestTwoDebtsOneRequest(t *testing.T) {
	w := inDebt(Cap, 3*second, nil)
	w.Debit(w.now, Charge{Key: networks("net")[0], Cost: 6 * second})
	order := map[string]time.Duration{}
	ask := func(name string, keys ...string) {
		w.ask(Arrival{Client: host(keys[0]), Others: networks(keys[1:]...), Guess: second}, func(*Ticket) { order[name] = w.elapsed().Round(time.Second) })
	}
	ask("both", "a", "net")
	ask("net only", "b", "net")
	ask("address only", "a")
	w.run(60 * second)
	want := map[string]time.Duration{"both": 6 * second, "net only": 7 * second, "address only": 3 * second}
	testkit.Same(t, fmt.Sprint(want), fmt.Sprint(order), "left")
}

// Clients of a network that owe nothing don't wait behind a neighbour's queue.
func TestNeighbourDoesNotWait(t *testing.T) {
	w := inDebt(Cap, 20*second, nil)
	for range 9 {
		w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("net"), Guess: second})
	}
	ticket := w.Arrive(w.now, Arrival{Client: host("b"), Others: networks("net"), Guess: second})
	if !testkit.Ready(ticket.Decided()) {
		t.Error("the neighbour waits")
	}
}

func TestReloadReleasesRequests(t *testing.T) {
	w := inDebt(Cap, 20*second, nil)
	ticket := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
	w.run(second)
	p := one(Observe, Budget{CPUs: 1})
	w.SetPolicy(w.now, p)
	if !testkit.Ready(w.Due()) {
		t.Error("no Advance was requested")
	}
	w.run(time.Millisecond)
	if !testkit.Ready(ticket.Decided()) {
		t.Error("the request still waits")
	}
	if got := credit(t, w, "a"); got > -19 {
		t.Errorf("level %v: the reload forgave debt", got)
	}
}

// Responses are released in the order in which they were held, whatever other requests were charged later. If
// the room is full, responses are sent at once.
func TestHolding(t *testing.T) {
	w := inDebt(Cooperative, 0, func(p *Policy) { p.MaxHeld = 2 })
	var tickets []*Ticket
	for range 4 {
		tickets = append(tickets, w.Arrive(w.now, Arrival{Client: host("a"), Guess: second}))
	}
	w.run(second)
	var holds []time.Duration
	for _, ticket := range tickets {
		holds = append(holds, w.Settle(w.now, ticket, second))
	}
	testkit.Same(t, []time.Duration{0, second, 2 * second, 0}, holds, "held")
	testkit.Same(t, 2, w.Held(), "held")
	for _, ticket := range tickets {
		w.Leave(w.now, ticket)
	}
	testkit.Same(t, 0, w.Held(), "held")
}

// credit returns the level of a client that the limiter has seen, in CPU-seconds.
func credit(t *testing.T, w *world, id string) float64 {
	t.Helper()
	r, ok := w.Find(w.now, host(id))
	if !ok {
		t.Fatalf("%s is not known", id)
	}
	return r.Level
}
