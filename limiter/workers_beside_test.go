package limiter

import (
	"slices"
	"testing"
	"time"
)

// flooded is a shift with a site that is only observed, whose clients always have so many
// requests at the backend.
type flooded struct {
	shift
	queue []*Ticket // in the order in which the backend answers them
}

func newFlooded(t *testing.T, all int, guess, idle time.Duration) *flooded {
	s := &flooded{shift: newShift(t, 0)}
	p := bounded()
	p.Gate.Workers, p.Gate.Heavy = 0, 8
	p.Sites = []SiteInfo{{Name: "seen", Mode: Observe}}
	s.SetPolicy(s.now, p)
	for range all {
		s.ask(guess, idle)
	}
	return s
}

func (s *flooded) ask(guess, idle time.Duration) {
	s.queue = append(s.queue, s.Arrive(s.now, Arrival{
		Client: host("a"), Others: networks("a/24"), Site: "seen", Guess: guess, Idle: idle, Sure: true,
	}))
}

// TestAnAcceptQueueProvesNoWorkers: forty requests of an observed site are at a backend of eight
// workers, which answers them in their order. Each takes as long as has become usual, and had
// the worker of one that ended since it came.
func TestAnAcceptQueueProvesNoWorkers(t *testing.T) {
	const guess, idle = 20 * time.Millisecond, 280 * time.Millisecond
	s := newFlooded(t, 40, guess, idle)
	for range 50 {
		s.run(60 * time.Millisecond)
		answered := s.queue[:8]
		s.queue = s.queue[8:]
		for _, x := range answered {
			s.Answering(s.now, x)
			s.done(x, guess)
		}
		for range answered {
			s.ask(guess, idle)
		}
	}
	s.expect("it answered 400", 16, "what is usual; nothing was learnt yet")
}

// TestLateOnesOfAnObservedSiteRefuteNoWorkers: who is not delayed may ask for any number of
// pages that come as short ones and are not.
func TestLateOnesOfAnObservedSiteRefuteNoWorkers(t *testing.T) {
	s := newFlooded(t, 40, 20*time.Millisecond, 0)
	s.run(2 * time.Second)
	for _, x := range s.queue {
		s.Progress(s.now, x, 20*time.Millisecond, false)
	}
	s.expect("all are late", 16, "what is usual; nothing was learnt yet")
	if s.Progress(s.now, s.queue[0], time.Second, true); s.gate.trustAgain != 0 {
		t.Error("the light ones of others are distrusted")
	}
}

// TestWhoLeavesProvesNoWorkers: forty clients leave before the answer, the last first. That their requests end
// soon says nothing of the workers.
func TestWhoLeavesProvesNoWorkers(t *testing.T) {
	s := newFlooded(t, 40, 20*time.Millisecond, 280*time.Millisecond)
	s.run(60 * time.Millisecond)
	for _, x := range slices.Backward(s.queue) {
		s.Orphan(s.now, x)
		s.done(x, 0)
	}
	s.expect("all have left", 16, "what is usual; nothing was learnt yet")
}
