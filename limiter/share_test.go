package limiter

import (
	"context"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// sharer keeps the charges that it is offered.
type sharer struct{ got []Charge }

func (s *sharer) Offer(c Charge) bool             { s.got = append(s.got, c); return false }
func (s *sharer) Carry([]byte) bool               { return false }
func (s *sharer) Run(context.Context, Sink) error { return nil }
func (s *sharer) Status() SharingStatus           { return SharingStatus{} }

// TestSharerIsOfferedCharges: charges offered to the Sharer include the client's standing.
func TestSharerIsOfferedCharges(t *testing.T) {
	s := &sharer{}
	start := time.Now()
	l := New(start, one(Fair, Budget{CPUs: 1}), 1<<10, s)
	ticket := l.Arrive(start, Arrival{Client: host("a"), Guess: second, Standing: 4})
	l.Settle(start.Add(second), ticket, 3*second)
	l.Leave(start.Add(second), ticket)
	gone := l.Arrive(start, Arrival{Client: host("b"), Guess: second})
	l.Leave(start, gone)
	want := []Charge{{Key: host("a"), Cost: 3 * second, Standing: 4, At: start.Add(second), Received: start, Until: start}}
	testkit.Same(t, want, s.got, "offered")
}

// TestBalance: the balances of an unknown key, and of a key that owes and has a standing.
func TestBalance(t *testing.T) {
	start := time.Now()
	l := New(start, one(Fair, Budget{CPUs: 0.5, Burst: 4 * second}), 1<<10, nil)
	if b := l.balance(start, host("a")); b.Level != 4 || b.Rate != 0.5 || b.Burst != 4 {
		t.Errorf("%+v", b)
	}
	ticket := l.Arrive(start, Arrival{Client: host("a"), Guess: second, Standing: 2})
	l.Settle(start, ticket, 10*second)
	l.Leave(start, ticket)
	if b := l.balance(start.Add(2*second), host("a")); b.Level != -4 || b.Rate != 1 || b.Burst != 8 {
		t.Errorf("%+v", b)
	}
}

// TestPrivateIsNotOffered: charges and refusals of a local-only class aren't shared.
func TestPrivateIsNotOffered(t *testing.T) {
	s := &sharer{}
	start := time.Now()
	l := New(start, one(Cap, Budget{CPUs: 1, LocalOnly: true}), 1<<10, s)
	ticket := l.Arrive(start, Arrival{Client: host("a"), Others: networks("net"), Guess: second})
	l.Settle(start.Add(second), ticket, 100*second)
	l.Leave(start.Add(second), ticket)
	refused := l.Arrive(start.Add(second), Arrival{Client: host("a"), Others: networks("net"), Guess: second})
	if l.Leave(start.Add(second), refused); refused.Verdict().Action != Refuse || len(s.got) != 0 {
		t.Errorf("%v, offered %+v", refused.Verdict(), s.got)
	}
}

func TestSharerIsOfferedWaitsAndRefusals(t *testing.T) {
	s := &sharer{}
	w := newWorld(one(Cap, Budget{CPUs: 1}))
	w.sharer = s
	w.Debit(w.now, Charge{Key: host("a"), Cost: 10 * second})
	w.ask(Arrival{Client: host("a"), Guess: second}, func(t *Ticket) {
		w.Settle(w.now, t, second)
		w.Leave(w.now, t)
	})
	w.run(20 * second)
	came := w.start
	w.Debit(w.now, Charge{Key: host("a"), Cost: 100 * second})
	w.Leave(w.now, w.Arrive(w.now, Arrival{Client: host("a"), Guess: second}))
	want := []Charge{
		{Key: host("a"), Cost: second, Standing: 1, At: came.Add(10 * second), Received: came, Until: came.Add(10 * second)},
		{Key: host("a"), Event: Rejected, At: w.now, Received: w.now, Until: w.now},
	}
	testkit.Same(t, want, s.got, "offered")
}

// told returns a policy with a class whose keys wait until the times that peers send.
func told(hold time.Duration) Policy {
	p := one(Fair, Budget{CPUs: 0.5, Burst: 10 * second})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{External: true, MaxHold: hold}})
	return p
}

// TestExternalClass checks what happens to a key that a master throttles. Each request waits until the time
// that was known when the request arrived. Later requests wait longer, and an order doesn't delay earlier
// requests.
func TestExternalClass(t *testing.T) {
	s := &sharer{}
	w := newWorld(told(5 * second))
	w.sharer = s
	key := networks("net")[0]
	var went []time.Duration
	ask := func() {
		w.ask(Arrival{Client: host("a"), Others: networks("net"), Guess: 3 * second}, func(t *Ticket) {
			if t.Verdict().Action == Refuse {
				went = append(went, -1)
			} else {
				went = append(went, w.elapsed().Truncate(10*time.Millisecond)) // ask checks every millisecond
				w.Settle(w.now, t, 7*second)
			}
			w.Leave(w.now, t)
		})
	}
	ask()
	if got := credit(t, w, "a"); got != 3 {
		t.Fatalf("the client's level is %v, want 3", got)
	}
	w.Raise(w.now, key, w.now.Add(2*second))
	ask()
	w.Raise(w.now, key, w.now.Add(3*second))
	ask()
	w.Raise(w.now, key, w.now.Add(6*second))
	ask() // the client must wait for more than 5 s
	w.run(4 * second)
	ask()
	w.run(10 * second)
	ask()
	testkit.Same(t, []time.Duration{0, -1, 2 * second, 3 * second, 6 * second, 14 * second}, went, "started")
	type row struct {
		event Event
		until time.Duration
	}
	var got []row
	for _, c := range s.got {
		if c.Key == key {
			got = append(got, row{c.Event, c.Until.Sub(w.start)})
		} else if c.Event != Settled && c.Event != Rejected {
			t.Errorf("%v of %v, which must not be shared", c.Event, c.Key)
		}
	}
	want := []row{{Accepted, 0}, {Delayed, 2 * second}, {Delayed, 3 * second}, {Rejected, 0}, {Delayed, 6 * second}, {Accepted, 14 * second}}
	testkit.Same(t, want, got, "offered to peers")
}

// TestExternalDelayIsBounded: a peer can delay a key by a day at most, and the key isn't charged the cost of
// its requests.
func TestExternalDelayIsBounded(t *testing.T) {
	w := newWorld(told(0))
	key := networks("net")[0]
	w.Raise(w.now, key, w.now.Add(1000*time.Hour))
	w.Debit(w.now, Charge{Key: key, Cost: time.Hour})
	if r, _ := w.Find(w.now, key); r.Level != -longestExternal.Seconds() {
		t.Errorf("level %v, want a day", r.Level)
	}
}

// TestNormalizedCost: for a receiver that doesn't know the standing, a key with four times the budget is
// charged a quarter.
func TestNormalizedCost(t *testing.T) {
	for standing, want := range map[float64]time.Duration{4: second, 1: 4 * second, 0.5: 8 * second, 0: 4 * second, -1: 4 * second} {
		x := Charge{Cost: 4 * second, Standing: standing}
		testkit.Same(t, want, x.NormalizedCost(), "with a standing of %g, 4 s count as", standing)
	}
}

// TestDivide: if there are more instances, each key saves less at each of them. Lost credit isn't given back
// when there are fewer instances.
func TestDivide(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 1, Burst: 12 * second}))
	w.Leave(w.now, w.Arrive(w.now, Arrival{Client: host("a")}))
	for i, want := range []float64{12, 4, 4, 6, 6} {
		n := []int{1, 3, 1, 2, 0}[i]
		w.SetInstances(w.now, n)
		if i == 3 {
			w.run(10 * second)
		}
		if i == 4 {
			w.SetPolicy(w.now, one(Cap, Budget{CPUs: 1, Burst: 12 * second}))
		}
		testkit.Same(t, want, credit(t, w, "a"), "%d: level with %d instances", i, n)
	}
}
