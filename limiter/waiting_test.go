package limiter

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// inDebt is a world of one mode in which a key owes: requests of one second
// would have to wait for debt seconds.
func inDebt(m Mode, debt time.Duration, change func(*Policy)) *world {
	p := one(m, Budget{CPUs: 1})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1}})
	if change != nil {
		change(&p)
	}
	w := newWorld(p)
	w.Debit(w.now, Charge{Key: by("a")[0], Cost: debt})
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
	// Nobody ends here: each start is charged, and paid before the next.
	want := []string{"0 at 2s", "1 at 3s", "2 at 4s", "3 at 5s"}
	if !slices.Equal(order, want) {
		t.Errorf("left %v, want %v", order, want)
	}
}

func TestWaiterLeavesAtOnceWithItsClient(t *testing.T) {
	w := inDebt(Cap, 2*second, nil)
	first := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
	var at time.Duration
	w.ask(Arrival{Client: host("a"), Guess: second}, func(*Ticket) { at = w.elapsed() })
	w.after(second, func() { w.Leave(w.now, first) })
	w.run(10 * second)
	if at.Round(100*time.Millisecond) != 2*second {
		t.Errorf("the second left at %v, want the place of the first at 2s", at)
	}
	if w.Held() != 0 {
		t.Errorf("%d held, want none", w.Held())
	}
}

// A client that leaves in the moment in which its request is released never
// ran: what it was charged is given back.
func TestReleasedButGoneIsGivenBack(t *testing.T) {
	w := inDebt(Cap, 2*second, nil)
	ticket := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
	w.run(2 * second)
	if credit(t, w, "a") >= 0 {
		t.Fatal("not charged when released")
	}
	w.Leave(w.now, ticket)
	if got := credit(t, w, "a"); got < -1e-6 {
		t.Errorf("level %v, want none owed", got)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		mode   Mode
		debt   time.Duration
		change func(*Policy)
		before int // requests that are held already
		want   Verdict
	}{
		"cap: too long":         {mode: Cap, debt: 40 * second, want: Verdict{Wait: 40 * second, Key: by("a")[0], Action: Refuse, Reason: Debt}},
		"cooperative: too long": {mode: Cooperative, debt: 40 * second, want: Verdict{Wait: 40 * second, Key: by("a")[0], Action: Refuse, Reason: Debt}},
		"server full": {
			mode: Cap, debt: 2 * second, before: 3,
			change: func(p *Policy) { p.MaxHeld = 3 },
			want:   Verdict{Wait: 5 * second, Key: by("a")[0], Action: Refuse, Reason: ServerFull},
		},
		"behind others too long": {mode: Cap, debt: 20 * second, before: 11, want: Verdict{Wait: 31 * second, Key: by("a")[0], Action: Refuse, Reason: Debt}},
		"observe":                {mode: Observe, debt: 40 * second, want: Verdict{Undelayed: true}},
		"shadow": {
			mode: Cap, debt: 40 * second, change: func(p *Policy) { p.Shadow = true },
			want: Verdict{
				Wait: 40 * second, Key: by("a")[0], Action: Refuse, Reason: Debt, Shadow: true,
				Would: Would{by("a")[0], 40 * second, Refuse},
			},
		},
		"one class in shadow": {
			mode: Cap, debt: 5 * second, change: func(p *Policy) { p.Classes[0].Budget.Shadow = true },
			want: Verdict{
				Wait: 5 * second, Key: by("a")[0], Action: Go, Reason: Debt, Shadow: true,
				Would: Would{by("a")[0], 5 * second, Go},
			},
		},
		"a capped class in cooperative": {
			mode: Cooperative, debt: 40 * second, change: func(p *Policy) { p.Classes[0].Budget.Cap = true },
			want: Verdict{Wait: 40 * second, Key: by("a")[0], Action: Refuse, Reason: Debt},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inDebt(c.mode, c.debt, c.change)
			for range c.before {
				w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
			}
			keys := w.Keys()
			ticket := w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("a/24"), Guess: second})
			select {
			case <-ticket.Decided():
			default:
				t.Fatal("it waits, want a verdict at once")
			}
			got := ticket.Verdict()
			got.Known, got.Ahead, got.CostMultiplier = false, false, 0 // the gate's, which observe passes
			if got != c.want {
				t.Errorf("verdict %+v, want %+v", got, c.want)
			}
			if got := ticket.Verdict().Refused(); got && w.Keys() != keys {
				t.Error("a refused request made a key")
			}
			w.Leave(w.now, ticket)
		})
	}
}

// TestFullRoomRefusesTheLongestQueue: one client may fill the room; then others take their places from it.
func TestFullRoomRefusesTheLongestQueue(t *testing.T) {
	w := inDebt(Cap, 2*second, func(p *Policy) { p.MaxHeld = 4 })
	w.Debit(w.now, Charge{Key: by("b")[0], Cost: 2 * second})
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
		select {
		case <-x.Decided():
		default:
			if refused {
				t.Errorf("%s is not told", name)
			}
		}
		if v := x.Verdict(); v.Refused() != refused || refused && (v.Reason != ServerFull || v.Key != by("a")[0]) {
			t.Errorf("%s: %+v, refused %t wanted", name, v, refused)
		}
	}
	expect("the newest of the many", many[3], true)
	expect("the one before", many[2], false)
	expect("the one of another client", one, false)
	expect("one more of the many", wait("a"), true)
}

func TestWaitEndsAtMaxHold(t *testing.T) {
	w := inDebt(Cap, 29*second, nil)
	var verdict Verdict
	var at time.Duration
	w.ask(Arrival{Client: host("a"), Guess: second}, func(t *Ticket) { verdict, at = t.Verdict(), w.elapsed() })
	w.run(second)
	w.Debit(w.now, Charge{Key: by("a")[0], Cost: 60 * second}) // a peer's report makes it worse
	w.run(60 * second)
	if verdict.Action != Refuse || verdict.Reason != Debt || at.Round(100*time.Millisecond) != 30*second {
		t.Errorf("%+v at %v, want refused for debt at 30s", verdict, at)
	}
	if w.Held() != 0 {
		t.Errorf("%d held, want none", w.Held())
	}
}

// A request that two of its keys block waits for both, and then in the order of
// arrival among those who wait for the second.
func TestTwoDebtsOneRequest(t *testing.T) {
	w := inDebt(Cap, 3*second, nil)
	w.Debit(w.now, Charge{Key: by("", "net")[1], Cost: 6 * second})
	order := map[string]time.Duration{}
	ask := func(name string, keys ...string) {
		w.ask(Arrival{Client: host(keys[0]), Others: networks(keys[1:]...), Guess: second}, func(*Ticket) { order[name] = w.elapsed().Round(time.Second) })
	}
	ask("both", "a", "net")
	ask("net only", "b", "net")
	ask("address only", "a")
	w.run(60 * second)
	want := map[string]time.Duration{"both": 6 * second, "net only": 7 * second, "address only": 3 * second}
	if fmt.Sprint(order) != fmt.Sprint(want) {
		t.Errorf("left %v, want %v", order, want)
	}
}

// Innocents of a network do not wait behind a neighbour's queue.
func TestNeighbourDoesNotWait(t *testing.T) {
	w := inDebt(Cap, 20*second, nil)
	for range 9 {
		w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("net"), Guess: second})
	}
	ticket := w.Arrive(w.now, Arrival{Client: host("b"), Others: networks("net"), Guess: second})
	select {
	case <-ticket.Decided():
	default:
		t.Error("the neighbour waits")
	}
}

func TestReloadReleasesWhoNeedNotWait(t *testing.T) {
	w := inDebt(Cap, 20*second, nil)
	ticket := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
	w.run(second)
	p := one(Observe, Budget{CPUs: 1})
	w.SetPolicy(w.now, p)
	select {
	case <-w.Due():
	default:
		t.Error("nobody was told that something is due")
	}
	w.run(time.Millisecond)
	select {
	case <-ticket.Decided():
	default:
		t.Error("it still waits")
	}
	if got := credit(t, w, "a"); got > -19 {
		t.Errorf("level %v: the reload forgave debt", got)
	}
}

// Responses are held first in, first out, and not for what others were charged
// later; when the room is full they go.
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
	if want := []time.Duration{0, second, 2 * second, 0}; !slices.Equal(holds, want) {
		t.Errorf("held %v, want %v", holds, want)
	}
	if w.Held() != 2 {
		t.Errorf("%d held, want 2", w.Held())
	}
	for _, ticket := range tickets {
		w.Leave(w.now, ticket)
	}
	if w.Held() != 0 {
		t.Errorf("%d held, want none", w.Held())
	}
}

func credit(t *testing.T, w *world, id string) float64 {
	t.Helper()
	r, ok := w.Find(w.now, by(id)[0])
	if !ok {
		t.Fatalf("%s is not known", id)
	}
	return r.Level
}
