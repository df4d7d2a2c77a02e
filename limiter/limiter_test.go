package limiter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/account"
)

func TestUnknownClassIsNotCharged(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 1}))
	ticket := w.Arrive(w.now, Arrival{Client: Key{Class: "session", ID: "x"}, Others: []Key{host("a")}, Guess: second})
	w.Settle(w.now, ticket, second)
	w.Leave(w.now, ticket)
	testkit.Same(t, 1, w.Keys(), "keys")
}

func TestRaise(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 0.5, Burst: 10 * second}))
	w.Raise(w.now, host("a"), w.now.Add(20*second))
	testkit.Same(t, -10, credit(t, w, "a"), "level, with 20 s of debt")
	w.Raise(w.now, host("a"), w.now.Add(5*second))
	testkit.Same(t, -10, credit(t, w, "a"), "level, after a peer reported less debt")
}

// checkIdle checks that the requests, which are all over, left nothing behind.
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

// TestConcurrently is for the race detector. Many clients run concurrently with a driver, reloads and a doctor.
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
	loop(func() { l.Measure(time.Now(), rand.Float64()) })
	var latest atomic.Pointer[Ticket] // when another goroutine reads it, its memory may belong to another request
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
				l.Reguess(time.Now(), ticket, Estimate{Guess: time.Duration(rng.IntN(300)) * time.Millisecond, Sure: true})
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

// TestTicketsLeaveNothing: a ticket in reused memory is like a new one.
func TestTicketsLeaveNothing(t *testing.T) {
	for name, mode := range map[string]Mode{"at the gate": Fair, "without a gate": Cap} {
		w := newWorld(roomy(mode))
		x := w.Arrive(w.now, Arrival{
			Client: host("a"), Others: networks("net"), Guess: second, Idle: second, Running: second, Sure: true, Standing: 2, ClientsBehind: 2, Person: 1, Proven: true,
			Passed: true, Session: true, Face: 3, Follows: true, Prefetch: true,
		})
		w.Progress(w.now, x, 2*second, true)
		w.Settle(w.now, x, 3*second)
		w.Leave(w.now, x)
		memory := x.Emptied()
		if memory == nil {
			t.Fatalf("%s: the ticket can't be reused", name)
		}
		got, want := (&Arrival{Memory: memory}).ticket(0, w.policy.Load()), (&Arrival{}).ticket(0, w.policy.Load())
		got.decided, got.decidedAtOnce = want.decided, want.decidedAtOnce // Arrive sets them
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v is left", name, got)
		}
	}
}

// TestRunningRequestsAreCharged: with a gate and without, a request is charged first its guess, then the CPU
// time that it has used beyond the guess, and in the end its cost, once. A lower report doesn't reduce the
// charge.
func TestRunningRequestsAreCharged(t *testing.T) {
	for _, mode := range []Mode{Observe, Cooperative} {
		t.Run(mode.String(), func(t *testing.T) { chargedOn(t, mode) })
	}
}

func chargedOn(t *testing.T, mode Mode) {
	w := newWorld(one(mode, Budget{CPUs: 1, Burst: 30 * second}))
	expect := func(when string, want float64) {
		t.Helper()
		if got := credit(t, w, "a"); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: level %v, want %v", when, got, want)
		}
	}
	x := w.of("a", 2*second)
	expect("arrived", 28)
	for _, step := range []struct {
		soFar time.Duration
		level float64
	}{{second, 28}, {2 * second, 28}, {5 * second, 25}, {3 * second, 25}, {6 * second, 24}} {
		w.Progress(w.now, x, step.soFar, true)
		expect(fmt.Sprint("has used ", step.soFar), step.level)
	}
	w.Settle(w.now, x, 40*second)
	expect("cost more than the burst", -10)
	w.Settle(w.now, x, 0)
	w.Progress(w.now, x, 50*second, true)
	expect("settled a second time", -10)
	w.Leave(w.now, x)
	w.done(x, 0)
	expect("left", -10)
	w.done(w.of("a", 2*second), second)
	expect("cost less than guessed", -11)
}
