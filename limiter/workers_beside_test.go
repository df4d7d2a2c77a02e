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
	p.Sites = []SiteInfo{{Name: "seen"}}
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
