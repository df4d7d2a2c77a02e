package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// stall is a world in which two requests of a size compute. Strangers' requests of that size therefore wait.
type stall struct {
	*world
	size time.Duration
	hogs []*Ticket
	wait []*Ticket
	name map[*Ticket]string
}

func newStall(size time.Duration) *stall {
	w := siegeOf("hog")
	return &stall{world: w, size: size, hogs: []*Ticket{w.of("hog", size), w.of("hog", size)}, name: map[*Ticket]string{}}
}

// comes sends a request from a new address, whose client is a stranger.
func (s *stall) comes(name string, a Arrival) *Ticket {
	a.Client = host(name)
	if a.Guess == 0 {
		a.Guess, a.Sure = s.size, true
	}
	x := s.Arrive(s.now, a)
	s.wait, s.name[x] = append(s.wait, x), name
	return x
}

// served gives the client of an address the given number of answers.
func (s *stall) served(name string, times int) {
	for range times {
		x := s.Arrive(s.now, Arrival{Client: host(name), Guess: time.Millisecond})
		s.done(x, time.Millisecond)
	}
}

// order returns the names of the waiting requests in the order in which they start, one at a time.
func (s *stall) order(t *testing.T) (names []string) {
	t.Helper()
	s.done(s.hogs[0], s.size)
	for range s.wait {
		for _, x := range s.wait {
			if s.phaseOf(x).running() {
				names = append(names, s.name[x])
				s.done(x, s.size)
				break
			}
		}
	}
	if len(names) != len(s.wait) {
		t.Errorf("%d of %d started: %v", len(names), len(s.wait), names)
	}
	return names
}

// TestStrangersTakeTurns checks which stranger takes the strangers' turn.
func TestStrangersTakeTurns(t *testing.T) {
	for what, c := range map[string]struct {
		come func(s *stall)
		want []string
	}{
		"the oldest, while waits are short": {func(s *stall) {
			for i := range 4 {
				s.comes(fmt.Sprint(i), Arrival{})
				s.run(200 * time.Millisecond)
			}
		}, []string{"0", "1", "2", "3"}},
		"the newest, once one has waited for a second; the impatient one goes last": {func(s *stall) {
			s.comes("late", Arrival{})
			s.run(500 * time.Millisecond)
			s.comes("1", Arrival{})
			s.run(500 * time.Millisecond)
			s.comes("2", Arrival{})
			s.run(100 * time.Millisecond)
			s.comes("3", Arrival{})
		}, []string{"3", "2", "1", "late"}},
		"a stranger with answers doesn't count as impatient": {func(s *stall) {
			s.served("late", strangerAnswers)
			s.comes("late", Arrival{})
			s.run(patience)
			s.comes("1", Arrival{})
			s.run(100 * time.Millisecond)
			s.comes("2", Arrival{})
		}, []string{"1", "2", "late"}},
		"the one with the fewest answers": {func(s *stall) {
			s.served("two", 2)
			s.served("one", 1)
			s.served("many", 9)
			s.served("five", 5)
			for _, name := range []string{"many", "five", "two", "one", "none"} {
				s.comes(name, Arrival{})
			}
		}, []string{"none", "one", "two", "five", "many"}},
	} {
		s := newStall(time.Second)
		c.come(s)
		testkit.Same(t, c.want, s.order(t), "%s", what)
	}
}

// TestStrangersAreChargedAsTheyStart: a queue of strangers doesn't postpone their turn.
func TestStrangersAreChargedAsTheyStart(t *testing.T) {
	w := siegeOf("hog", "known")
	hogs := []*Ticket{w.of("hog", time.Second), w.of("hog", time.Second)}
	flow := &w.gate.home.strangers.flow
	before := flow.virtualTime
	var first *Ticket
	for i := range 500 {
		if x := w.of(fmt.Sprint("stranger ", i), time.Second); first == nil {
			first = x
		}
	}
	if g := w.GateState(); g.Queued != 500 || flow.virtualTime != before {
		t.Errorf("%d strangers wait, and their virtual time moved by %g", g.Queued, flow.virtualTime-before)
	}
	for i := range 500 {
		if r, ok := w.Find(w.now, host(fmt.Sprint("stranger ", i))); !ok || r.Level < 30 {
			t.Fatalf("stranger %d is charged %g while it waits", i, 30-r.Level)
		}
	}
	known := w.of("known", time.Second)
	w.done(hogs[0], time.Second)
	w.expectPhase(t, "the strangers' share is five times as great", first, computing)
	w.expectPhase(t, "a known client, once strangers had their turn", known, queued)
	if got, want := flow.virtualTime-w.gate.home.clock.systemVirtualTime, 1/flow.share; math.Abs(got-want) > 1e-9 {
		t.Errorf("strangers are %g ahead, want %g for the request that runs", got, want)
	}
	w.Leave(w.now, first)
	if flow.work != 499+1-1 { // one of the 499 now runs instead of waiting
		t.Errorf("%d strangers have work", flow.work)
	}
}

// TestStrangersGetAThird floods the gate with heavy requests, each from its own address, while known clients
// want as much as they can get.
func TestStrangersGetAThird(t *testing.T) {
	for _, known := range []int{0, 2, 10, 20} {
		var names []string
		for i := range known {
			names = append(names, fmt.Sprint("known ", i))
		}
		w := siegeOf(names...)
		used := map[string]float64{}
		for _, c := range names {
			w.wants(c, 2, Arrival{Client: host(c), Guess: time.Second, Sure: true}, used)
		}
		n := 0
		w.loop("strangers", 40, used, func() Arrival {
			n++
			return Arrival{Client: host(fmt.Sprint("stranger ", n)), Guess: time.Second, Sure: true}
		})
		w.run(120 * time.Second)
		share := max(0.5, 0.1*float64(known)/2)
		want := share / (share + 0.1*float64(known))
		if got := used["strangers"] / 240; got < 0.95*want || got > 1.2*want {
			t.Errorf("next to %d known clients, strangers got %.3f of the machine, want %.3f", known, got, want)
		}
	}
}
