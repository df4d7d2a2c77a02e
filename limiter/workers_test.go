package limiter

import (
	"testing"
	"time"
)

// shift is a gate whose number of workers is being learnt.
type shift struct {
	*world
	t *testing.T
}

func newShift(t *testing.T, configured int) shift {
	p := bounded()
	p.Gate.Workers, p.Gate.Heavy = configured, 8 // only workers are short
	w := newWorld(p)
	w.acquaint("a", "b", "c", "d", "e", "f", "g", "h")
	w.Measure(w.now, 0.2)
	return shift{w, t}
}

func (s shift) expect(what string, n int, by string) {
	s.t.Helper()
	if g := s.GateState(); g.Workers != n || g.WorkersBy != by {
		s.t.Errorf("%s: %d workers by %s, want %d by %s", what, g.Workers, g.WorkersBy, n, by)
	}
}

// pages has each of the clients ask for so many light pages.
func (s shift) pages(each int, clients ...string) (xs []*Ticket) {
	for _, c := range clients {
		for range each {
			xs = append(xs, s.light(c))
		}
	}
	return xs
}

// polls fills what may be held.
func (s shift) polls(n int, clients ...string) (xs []*Ticket) {
	for i := range n {
		c := clients[i%len(clients)]
		xs = append(xs, s.poll(c, c+"/24"))
	}
	return xs
}

// TestPromptAnswersProveWorkers: six pages that are answered at once beside eleven
// that hold a worker prove eighteen; that makes room for more to be held.
func TestPromptAnswersProveWorkers(t *testing.T) {
	s := newShift(t, 0)
	s.expect("nothing is known", 16, "what is usual; nothing was learnt yet")
	s.polls(20, "a", "b", "c", "d")
	s.expectState(t, "held", map[string]int{"holding": 11, "queued": 9})
	for range 12 {
		pages := s.pages(3, "e", "f")
		s.run(20 * time.Millisecond)
		for _, x := range pages {
			s.Answering(s.now, x)
		}
		for _, x := range pages {
			s.done(x, 20*time.Millisecond)
		}
	}
	if g := s.GateState(); g.Workers < 25 || g.Holding != 20 || g.WorkersBy != "prompt answers" {
		t.Errorf("%d workers by %s, %d held; want all 20", g.Workers, g.WorkersBy, g.Holding)
	}
}

// TestTheConfiguredNumberIsACeiling: nothing is proven beyond it.
func TestTheConfiguredNumberIsACeiling(t *testing.T) {
	s := newShift(t, 12)
	s.expect("configured", 12, "configuration")
	s.polls(9, "a", "b")
	pages := s.pages(4, "e", "f")
	s.expectState(t, "all", map[string]int{"busy": 12})
	s.run(10 * time.Millisecond)
	for _, x := range pages {
		s.Answering(s.now, x)
	}
	s.expect("proven again", 12, "configuration")
	s.Found(s.now, 40, "php-fpm")
	s.expect("found", 12, "configuration")
	p := bounded()
	p.Gate.Workers = 6
	s.SetPolicy(s.now, p)
	s.expect("configured anew", 6, "configuration")
	p.Gate.Workers = 0
	s.SetPolicy(s.now, p)
	s.expect("no more", 16, "what is usual; nothing was learnt yet")
}

// TestLateAnswersRefuteWorkers: five are held, and three pages wait at the backend
// for a long time though the CPUs are idle. So there are five.
func TestLateAnswersRefuteWorkers(t *testing.T) {
	s := newShift(t, 0)
	s.polls(5, "a", "b")
	pages := s.pages(1, "e", "f", "g")
	tick := func() {
		for _, x := range pages {
			s.Progress(s.now, x, s.elapsed(), true)
		}
	}
	s.run(300 * time.Millisecond)
	tick()
	s.expect("a page may take as long", 16, "what is usual; nothing was learnt yet")
	s.run(200 * time.Millisecond)
	tick()
	s.expect("three are late", 5, "late answers")
	for _, x := range pages {
		s.Answering(s.now, x)
		s.done(x, 20*time.Millisecond)
	}
	s.expect("they were answered in the end", 5, "late answers")
	s.pages(4, "e", "f")
	s.expectState(t, "some short ones always may go", map[string]int{"busy": 5 + keptForKnown})
	if g := s.GateState(); g.LongMost != 3 {
		t.Errorf("%d may be held of five workers, want 3", g.LongMost)
	}
}

// TestFullCPUsRefuteNothing: pages that take long as the CPUs are full wait for no
// worker.
func TestFullCPUsRefuteNothing(t *testing.T) {
	s := newShift(t, 0)
	s.Measure(s.now, 1)
	pages := s.pages(2, "e", "f", "g")
	s.run(time.Second)
	for _, x := range pages {
		s.Progress(s.now, x, 50*time.Millisecond, true)
	}
	s.expect("all are late", 16, "what is usual; nothing was learnt yet")
}

// TestMoreAreTriedAgain: what was refuted is tried once more after a while, with
// one more at a time.
func TestMoreAreTriedAgain(t *testing.T) {
	s := newShift(t, 0)
	s.polls(9, "a", "b", "c")
	s.Backlog(s.now, 3, 0)
	s.expect("one look may see what is just being accepted", 16, "what is usual; nothing was learnt yet")
	s.Backlog(s.now, 4, 0)
	s.expect("three connections were not accepted", 6, "its accept queue")
	if n := s.Wants(s.now); n != 0 {
		s.t.Errorf("%d are to be tried at once", n)
	}
	s.run(6 * time.Second)
	s.polls(1, "d")
	if n := s.Wants(s.now); n != 1 {
		s.t.Errorf("%d connections are to be tried beside 9, want 10 of them in all", n)
	}
	s.Tried(s.now, 1, 1)
	s.expect("it was not accepted", 9, "connections that were accepted")
	s = newShift(t, 0)
	s.Found(s.now, 5, "php-fpm")
	s.expect("found", 5, "php-fpm")
	s.polls(9, "a", "b")
	s.expectState(t, "three may be held", map[string]int{"holding": 2, "busy": 2})
	s.run(11 * time.Minute)
	first := s.GateState().Busy
	pages := s.pages(2, "e", "f")
	if g := s.GateState(); g.Busy != 6 {
		t.Errorf("%d at the backend, of which %d held, want one more than 5", g.Busy, first)
	}
	s.run(10 * time.Millisecond)
	for _, x := range pages {
		s.Answering(s.now, x)
	}
	s.expect("it proved right", 6, "prompt answers")
}

// TestWorkersThatAreBeingStarted: php-fpm has connections wait while it starts the workers that
// it may have, so that these do not show that there are fewer, but that there are no more.
func TestWorkersThatAreBeingStarted(t *testing.T) {
	s := newShift(t, 0)
	s.Found(s.now, 5, "php-fpm")
	s.pages(4, "e")
	for range 3 {
		s.Backlog(s.now, 2, 5)
	}
	s.expect("two wait for the third and the fourth worker", 5, "php-fpm")
	s = newShift(t, 0)
	s.Found(s.now, 12, "php-fpm's two pools")
	s.pages(3, "e", "f")
	for range 3 {
		s.Backlog(s.now, 4, 5)
	}
	s.expect("four wait before the pool that has five", 5, "its accept queue")
}

// TestWhoAcceptsBeforeTheWorkersProvesNothing: a web server accepts connections for
// php-fpm, whose number was found, and has them wait.
func TestWhoAcceptsBeforeTheWorkersProvesNothing(t *testing.T) {
	s := newShift(t, 0)
	backlog := func(n int) { // two looks at it
		s.Backlog(s.now, n, 0)
		s.Backlog(s.now, n, 0)
	}
	s.Found(s.now, 5, "php-fpm")
	s.polls(9, "a", "b")
	s.pages(3, "e")
	backlog(2)
	s.expect("fewer are free", 3, "its accept queue")
	s.run(6 * time.Second)
	s.Tried(s.now, 20, 0)
	s.expect("no more than were found, for a minute", 5, "connections that were accepted")
	s.run(time.Minute)
	s.Tried(s.now, 20, 0)
	if n, _ := s.Workers(); n < 20 {
		t.Errorf("%d workers, though 20 more connections were accepted after a minute", n)
	}
	backlog(3)
	before, by := s.Workers()
	if by != "its accept queue" {
		t.Errorf("%d workers by %s, want fewer, as connections wait that were accepted", before, by)
	}
	s.run(time.Hour)
	if n := s.Wants(s.now); n != 0 {
		t.Errorf("%d connections are to be tried, which prove nothing", n)
	}
	s.Tried(s.now, 20, 0)
	s.expect("accepted, and to wait", before, by)
}
