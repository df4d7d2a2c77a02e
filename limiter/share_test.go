package limiter

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sharer keeps what it is offered.
type sharer struct{ got []Charge }

func (s *sharer) Offer(c Charge) bool             { s.got = append(s.got, c); return false }
func (s *sharer) Run(context.Context, Sink) error { return nil }
func (s *sharer) Status() SharingStatus           { return SharingStatus{} }

func TestSharerIsOfferedWhatWasCharged(t *testing.T) {
	s := &sharer{}
	start := time.Now()
	l := New(start, one(Observe, Budget{CPUs: 1}), 1<<10, s)
	ticket := l.Arrive(start, Arrival{Client: host("a"), Guess: second})
	l.Settle(start.Add(second), ticket, 3*second)
	l.Leave(start.Add(second), ticket)
	gone := l.Arrive(start, Arrival{Client: host("b"), Guess: second})
	l.Leave(start, gone)
	want := []Charge{{Key: by("a")[0], Cost: 3 * second, Standing: 1, At: start.Add(second), Received: start, Until: start}}
	if diff := cmp.Diff(want, s.got); diff != "" {
		t.Errorf("offered, -want +got:\n%s", diff)
	}
}

// TestBalance: of a key that nobody knows, of one that owes and has a standing, and
// of none.
func TestBalance(t *testing.T) {
	start := time.Now()
	l := New(start, one(Fair, Budget{CPUs: 0.5, Burst: 4 * second}), 1<<10, nil)
	if b, ok := l.Balance(start, by("a")[0]); !ok || b != (Balance{4, 0.5, 4}) {
		t.Errorf("%+v, %v", b, ok)
	}
	ticket := l.Arrive(start, Arrival{Client: host("a"), Guess: second, Standing: 2})
	l.Settle(start, ticket, 10*second)
	l.Leave(start, ticket)
	if b, ok := l.Balance(start.Add(2*second), by("a")[0]); !ok || b != (Balance{-4, 1, 8}) {
		t.Errorf("%+v, %v", b, ok)
	}
	if b, ok := l.Balance(start, by("", "other")[1]); ok {
		t.Errorf("of no class: %+v", b)
	}
	told := New(start, told(second), 1<<10, nil)
	if b, ok := told.Balance(start, by("", "net")[1]); ok {
		t.Errorf("of a told class: %+v", b)
	}
}

// TestPrivateIsNotOffered: neither what was spent nor who was refused.
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

// TestSharerIsOfferedStanding: who shares has to know what else a client earns.
func TestSharerIsOfferedStanding(t *testing.T) {
	s := &sharer{}
	start := time.Now()
	l := New(start, one(Fair, Budget{CPUs: 1}), 1<<10, s)
	ticket := l.Arrive(start, Arrival{Client: host("a"), Others: networks("net"), Guess: second, Standing: 4})
	l.Settle(start.Add(second), ticket, second)
	l.Leave(start.Add(second), ticket)
	if len(s.got) != 1 || s.got[0].Standing != 4 {
		t.Errorf("offered %+v, want a standing of 4", s.got)
	}
}

func TestSharerIsOfferedWhatWaitedAndWhatWasRefused(t *testing.T) {
	s := &sharer{}
	w := newWorld(one(Cap, Budget{CPUs: 1}))
	w.sharer = s
	w.Debit(w.now, Charge{Key: by("a")[0], Cost: 10 * second})
	w.ask(Arrival{Client: host("a"), Guess: second}, func(t *Ticket) {
		w.Settle(w.now, t, second)
		w.Leave(w.now, t)
	})
	w.run(20 * second)
	came := w.start
	w.Debit(w.now, Charge{Key: by("a")[0], Cost: 100 * second})
	w.Leave(w.now, w.Arrive(w.now, Arrival{Client: host("a"), Guess: second}))
	want := []Charge{
		{Key: by("a")[0], Cost: second, Standing: 1, At: came.Add(10 * second), Received: came, Until: came.Add(10 * second)},
		{Key: by("a")[0], Event: Rejected, At: w.now, Received: w.now, Until: w.now},
	}
	if diff := cmp.Diff(want, s.got); diff != "" {
		t.Errorf("offered, -want +got:\n%s", diff)
	}
}

// told is a policy with a class whose keys wait as peers say.
func told(hold time.Duration) Policy {
	p := one(Fair, Budget{CPUs: 0.5, Burst: 10 * second})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{External: true, MaxHold: hold}})
	return p
}

// TestToldClass keeps the diary of a key that a master throttles: each request
// waits until what was known as it came, the later ones longer, and none for
// what was said after.
func TestToldClass(t *testing.T) {
	s := &sharer{}
	w := newWorld(told(5 * second))
	w.sharer = s
	key := by("", "net")[1]
	var went []time.Duration
	ask := func() {
		w.ask(Arrival{Client: host("a"), Others: networks("net"), Guess: 3 * second}, func(t *Ticket) {
			if t.Verdict().Action == Refuse {
				went = append(went, -1)
			} else {
				went = append(went, w.elapsed().Truncate(10*time.Millisecond)) // ask looks each millisecond
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
	ask() // more than 5 s
	w.run(4 * second)
	ask()
	w.run(10 * second)
	ask()
	if diff := cmp.Diff([]time.Duration{0, -1, 2 * second, 3 * second, 6 * second, 14 * second}, went); diff != "" {
		t.Errorf("went, -want +got:\n%s", diff)
	}
	type row struct {
		event Event
		until time.Duration
	}
	var got []row
	for _, c := range s.got {
		if c.Key == key {
			got = append(got, row{c.Event, c.Until.Sub(w.start)})
		} else if c.Event != Settled && c.Event != Rejected {
			t.Errorf("%v of %v, which nobody is told about", c.Event, c.Key)
		}
	}
	want := []row{{Accepted, 0}, {Delayed, 2 * second}, {Delayed, 3 * second}, {Rejected, 0}, {Delayed, 6 * second}, {Accepted, 14 * second}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("told peers, -want +got:\n%s", diff)
	}
}

// TestToldIsBounded: no time that a peer says makes more than a day of it, and
// none of what requests cost is charged.
func TestToldIsBounded(t *testing.T) {
	w := newWorld(told(0))
	key := by("", "net")[1]
	w.Raise(w.now, key, w.now.Add(1000*time.Hour))
	w.Debit(w.now, Charge{Key: key, Cost: time.Hour})
	if r, _ := w.Find(w.now, key); r.Level != -longestExternal.Seconds() {
		t.Errorf("level %v, want a day", r.Level)
	}
}

// TestNormalizedCost: where standing is not known, a key of four times the budget is charged with a quarter.
func TestNormalizedCost(t *testing.T) {
	for standing, want := range map[float64]time.Duration{4: second, 1: 4 * second, 0.5: 8 * second, 0: 4 * second, -1: 4 * second} {
		if c := (Charge{Cost: 4 * second, Standing: standing}); c.NormalizedCost() != want {
			t.Errorf("with a standing of %g 4 s count as %v, want %v", standing, c.NormalizedCost(), want)
		}
	}
}

// TestDivide: more sidecars mean less saved up on each, and what was earned once
// is not earned again when they leave.
func TestDivide(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 1, Burst: 12 * second}))
	w.Leave(w.now, w.Arrive(w.now, Arrival{Client: host("a")}))
	for i, want := range []float64{12, 4, 4, 6, 6} {
		n := []int{1, 3, 1, 2, 0}[i]
		w.SetReplicas(w.now, n)
		if i == 3 {
			w.run(10 * second)
		}
		if i == 4 {
			w.SetPolicy(w.now, one(Cap, Budget{CPUs: 1, Burst: 12 * second}))
		}
		if got := credit(t, w, "a"); got != want {
			t.Errorf("%d: level %v with %d sidecars, want %v", i, got, n, want)
		}
	}
}

func TestOutbox(t *testing.T) {
	o := NewOutbox(16 * 4)
	select {
	case <-o.Filled():
		t.Error("an empty outbox is filled")
	default:
	}
	key := by("a")[0]
	for i := range 6 {
		if ok := o.Offer(Charge{Key: key, Cost: time.Duration(i)}); ok != (i < 4) {
			t.Errorf("offer %d: %v", i, ok)
		}
	}
	<-o.Filled()
	for range 2 {
		var got []time.Duration
		o.Drain(func(c Charge) { got = append(got, c.Cost) })
		if diff := cmp.Diff([]time.Duration{0, 1, 2, 3}, got); diff != "" {
			t.Errorf("drained, -want +got:\n%s", diff)
		}
		for i := range 4 {
			o.Offer(Charge{Key: key, Cost: time.Duration(i)})
		}
		<-o.Filled()
	}
	if o.Dropped() != 2 {
		t.Errorf("%d dropped, want 2", o.Dropped())
	}
}

// TestOutboxTellsOfTheFirst: that it is no longer empty is told once, as the first charge comes in.
func TestOutboxTellsOfTheFirst(t *testing.T) {
	o := NewOutbox(1 << 10)
	for i, want := range []int{1, 0, 0} {
		o.Offer(Charge{Key: by("a")[0]})
		if got := len(o.Filled()); got != want {
			t.Errorf("charge %d: it is told %d times", i, got)
		}
		for range want {
			<-o.Filled()
		}
	}
}

// TestOutboxLosesNothingSilently fills and drains at the same time: all that was
// taken comes out, once.
func TestOutboxLosesNothingSilently(t *testing.T) {
	o := NewOutbox(1 << 10)
	var producers sync.WaitGroup
	taken := make([]int, 4)
	for p := range taken {
		producers.Go(func() {
			for i := range 20_000 {
				if o.Offer(Charge{Key: Key{Class: "c", ID: fmt.Sprint(i % 100)}}) {
					taken[p]++
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { producers.Wait(); close(done) }()
	got := 0
	for open := true; open; {
		select {
		case <-o.Filled():
		case <-done:
			open = false
		}
		o.Drain(func(Charge) { got++ })
	}
	if want := taken[0] + taken[1] + taken[2] + taken[3]; got != want || want+int(o.Dropped()) != 80_000 {
		t.Errorf("%d came out, %d were taken, %d dropped", got, want, o.Dropped())
	}
}

func BenchmarkOutbox(b *testing.B) {
	o := NewOutbox(1 << 16)
	b.RunParallel(func(pb *testing.PB) {
		c := Charge{Key: Key{Class: "slash32", ID: "192.0.2.1"}, At: time.Now()}
		for i := 0; pb.Next(); i++ {
			if !o.Offer(c) || i%1024 == 0 {
				select {
				case <-o.Filled():
					o.Drain(func(Charge) {})
				default:
				}
			}
		}
	})
}
