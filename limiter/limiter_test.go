package limiter

import (
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/limiter/account"
)

func TestChargedWithGuessSettledWithCost(t *testing.T) {
	w := newWorld(one(Observe, Budget{CPUs: 0.1, Burst: 30 * second}))
	expect := func(when string, want float64) {
		t.Helper()
		if got := credit(t, w, "a"); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: level %v, want %v", when, got, want)
		}
	}
	ticket := w.Arrive(w.now, Arrival{Client: host("a"), Guess: 2 * second})
	expect("arrived", 28)
	w.Progress(w.now, ticket, second, true)
	expect("no more than guessed so far", 28)
	w.Progress(w.now, ticket, 5*second, true)
	expect("more than guessed", 25)
	w.Settle(w.now, ticket, 40*second)
	expect("cost more than its burst", -10)
	w.Settle(w.now, ticket, 0)
	w.Progress(w.now, ticket, 50*second, true)
	expect("settled is settled", -10)
	w.Leave(w.now, ticket)
	w.Leave(w.now, ticket)
	expect("left", -10)

	cheap := w.Arrive(w.now, Arrival{Client: host("a"), Guess: 2 * second})
	w.Settle(w.now, cheap, second)
	w.Leave(w.now, cheap)
	expect("cost less than guessed", -11)
}

func TestUnknownClassIsNotCharged(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 1}))
	ticket := w.Arrive(w.now, Arrival{Client: Key{Class: "session", ID: "x"}, Others: []Key{host("a")}, Guess: second})
	w.Settle(w.now, ticket, second)
	w.Leave(w.now, ticket)
	if w.Keys() != 1 {
		t.Errorf("%d keys, want 1", w.Keys())
	}
}

func TestRaise(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 0.5, Burst: 10 * second}))
	w.Raise(w.now, by("a")[0], w.now.Add(20*second))
	if got := credit(t, w, "a"); got != -10 {
		t.Errorf("level %v, want 20 s of debt", got)
	}
	w.Raise(w.now, by("a")[0], w.now.Add(5*second))
	if got := credit(t, w, "a"); got != -10 {
		t.Errorf("level %v: a peer forgave debt", got)
	}
}

// checkIdle checks that nothing is left of requests that are over.
func checkIdle(t interface{ Fatalf(string, ...any) }, l *Limiter) {
	if l.Held() != 0 || len(l.room.queues)+len(l.room.of) != 0 || l.queued.Load() != 0 {
		t.Fatalf("%d held, %d queues, %d queued, want none", l.Held(), len(l.room.queues), l.queued.Load())
	}
	accounts(l, func(s account.State, _ *bucket) {
		if s.Running != 0 || s.Held != 0 || s.Waiting != 0 || s.Queued != 0 {
			t.Fatalf("%+v is left, want nothing running, held or waiting", s)
		}
	})
}

// TestConcurrently is for the race detector: many clients at once, with a driver,
// reloads and a doctor beside them.
func TestConcurrently(t *testing.T) {
	for _, mode := range []Mode{Cap, Fair} {
		p := roomy(mode)
		p.Classes = one(mode, Budget{CPUs: 50}).Classes
		p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 200}})
		t.Run(mode.String(), func(t *testing.T) { concurrently(t, p) })
	}
}

func concurrently(t *testing.T, p Policy) {
	start := time.Now()
	l := New(start, p, 64, nil)
	stop := make(chan struct{})
	var beside, clients sync.WaitGroup
	loop := func(f func()) {
		beside.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-l.Due():
				default:
				}
				f()
				runtime.Gosched()
			}
		})
	}
	loop(func() { l.Advance(time.Now()) })
	loop(func() { l.SetPolicy(time.Now(), p) })
	loop(func() { l.Dump(time.Now(), "", func(Row) bool { return true }) })
	var latest atomic.Pointer[Ticket] // whose memory may be another one's when it is looked at
	loop(func() {
		if x := latest.Load(); x != nil {
			l.Outlooks(time.Now(), []*Ticket{x})
		}
	})
	for c := range 8 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(c)))
			var memory *Ticket
			for range 100 {
				id := string(rune('a' + rng.IntN(200)))
				ticket := l.Arrive(time.Now(), Arrival{Client: host(id), Others: networks("net"), Guess: time.Millisecond, Memory: memory})
				latest.Store(ticket)
				if rng.IntN(4) > 0 {
					<-ticket.Decided()
					l.Progress(time.Now(), ticket, 2*time.Millisecond, true)
					l.Settle(time.Now(), ticket, time.Millisecond)
				}
				l.Leave(time.Now(), ticket)
				memory = ticket.Emptied()
			}
		})
	}
	clients.Wait()
	close(stop)
	beside.Wait()
	checkIdle(t, l)
}

// TestTicketsLeaveNothing: one in the memory of another one is as good as new.
func TestTicketsLeaveNothing(t *testing.T) {
	for name, mode := range map[string]Mode{"at the gate": Fair, "without one": Cap} {
		w := newWorld(roomy(mode))
		x := w.Arrive(w.now, Arrival{
			Client: host("a"), Others: networks("net"), Guess: second, Idle: second, Running: second, Sure: true, Standing: 2, ClientsBehind: 2, Proven: true,
			Passed: true, Session: true, Face: 3, Follows: true, Prefetch: true,
		})
		w.Progress(w.now, x, 2*second, true)
		w.Settle(w.now, x, 3*second)
		w.Leave(w.now, x)
		memory := x.Emptied()
		if memory == nil {
			t.Fatalf("%s: it may not be used again", name)
		}
		got, want := (&Arrival{Memory: memory}).ticket(0, w.policy.Load()), (&Arrival{}).ticket(0, w.policy.Load())
		got.decided, got.decidedAtOnce = want.decided, want.decidedAtOnce // Arrive sets them
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v is left", name, got)
		}
	}
}

// TestTicketsThatWaited are not used again: who tells them of it may come late.
func TestTicketsThatWaited(t *testing.T) {
	w := newWorld(roomy(Fair))
	var all []*Ticket
	for range 3 {
		all = append(all, w.heavy("a"))
	}
	x := all[2]
	w.expectPhase(t, "the last", x, queued)
	for _, y := range all[:2] {
		w.done(y, second)
	}
	w.expectPhase(t, "the last", x, computing)
	w.done(x, second)
	if x.Emptied() != nil {
		t.Error("it is used again")
	}
}

// TestWhatRunsIsChargedOn: in the modes without a queue, too, a request that runs longer than was guessed is charged
// with what it has used, and with no less once that is known.
func TestWhatRunsIsChargedOn(t *testing.T) {
	p := fair()
	p.Mode = Cooperative
	w := newWorld(p)
	level := func() float64 {
		r, _ := w.Find(w.now, by("a")[0])
		return r.Level
	}
	x := w.of("a", 100*time.Millisecond)
	began := level()
	for _, step := range []struct {
		soFar time.Duration
		want  float64
	}{{50 * time.Millisecond, 0}, {100 * time.Millisecond, 0}, {3 * time.Second, 2.9}, {2 * time.Second, 2.9}, {4 * time.Second, 3.9}} {
		if w.Progress(w.now, x, step.soFar, true); math.Abs(began-level()-step.want) > 1e-9 {
			t.Errorf("after %s it is charged with %g more than was guessed, want %g", step.soFar, began-level(), step.want)
		}
	}
	w.done(x, time.Second)
	w.Progress(w.now, x, time.Hour, true)
	if got := level() - began; math.Abs(got+0.9) > 1e-9 {
		t.Errorf("it cost a second, and is charged with %g more than was guessed", -got)
	}
}
