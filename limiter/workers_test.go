package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// shift is a gate that finds out how many workers there are.
type shift struct {
	*world
	t    *testing.T
	full int // workers of the pools at which connections wait; 0: they wait at all pools
}

// newShift makes a shift whose accept queue was read once, unless a number is configured.
func newShift(t *testing.T, configured int) shift {
	p := bounded()
	p.Gate.Workers, p.Gate.Heavy = configured, 8 // only workers are short
	w := newWorld(p)
	w.acquaint("a", "b", "c", "d", "e", "f", "g", "h")
	w.Measure(w.now, 0.2)
	if configured == 0 {
		w.Backlog(w.now, 0, 5, 0)
	}
	return shift{w, t, 0}
}

func (s shift) expect(what string, n int, by string) {
	s.t.Helper()
	if w := s.gate.workers; w.n != n || w.source != by {
		s.t.Errorf("%s: %d workers by %s, want %d by %s", what, w.n, w.source, n, by)
	}
}

// polls sends long polls until no client may hold more workers.
func (s shift) polls(n int, clients ...string) (xs []*Ticket) {
	for i := range n {
		c := clients[i%len(clients)]
		xs = append(xs, s.poll(c, c+"/24"))
	}
	return xs
}

// watch reads the accept queue ten times a second for the time d. queued is the number of connections that wait
// each time. processes returns the backend's number of processes at a given time.
func (s shift) watch(d time.Duration, queued int, processes func(time.Duration) int) {
	for at := time.Duration(0); at < d; at += 100 * time.Millisecond {
		s.run(100 * time.Millisecond)
		s.Backlog(s.now, queued, processes(at), s.full)
	}
}

func always(n int) func(time.Duration) int { return func(time.Duration) int { return n } }

const (
	byNothing = "no connection that waits to be accepted"
	byQueue   = "connections that wait to be accepted"
)

// TestWorkersArePlentyUntilConnectionsWait: a backend about which nothing is known gets any number of requests
// while it accepts them: within a second, or at once if the length of its accept queue is unknown.
func TestWorkersArePlentyUntilConnectionsWait(t *testing.T) {
	s := newShift(t, 0)
	s.expect("the accept queue was read once", 16, byNothing)
	if n, _ := s.Workers(); n != 0 {
		t.Errorf("%d workers are known, want any number", n)
	}
	s.polls(60, "a", "b", "c", "d", "e", "f", "g", "h")
	s.expectState(t, "at first", map[string]int{"holding": 11, "queued": 49})
	s.watch(time.Second, 0, always(5))
	s.expectState(t, "a second later", map[string]int{"holding": 60, "queued": 0})

	p := bounded()
	p.Gate.Workers = 0
	w := newWorld(p)
	w.acquaint("a", "b", "c", "d", "e", "f", "g", "h")
	blind := shift{w, t, 0}
	blind.polls(60, "a", "b", "c", "d", "e", "f", "g", "h")
	blind.expectState(t, "the accept queue can't be read", map[string]int{"holding": 60, "queued": 0})
}

// TestWaitingConnectionsTellThatWorkersAreShort: workers are short once connections have waited for a while, no
// worker has started in that time, and the CPUs aren't full. The backend then has as many workers as
// connections that it accepted.
func TestWaitingConnectionsTellThatWorkersAreShort(t *testing.T) {
	grows := func(each time.Duration) func(time.Duration) int {
		return func(at time.Duration) int { return 5 + int(at/each) }
	}
	for name, x := range map[string]struct {
		queued    int
		processes func(time.Duration) int
		lasts     time.Duration
		use       float64
		full      int
		want      int // number of workers; 0: unknown
	}{
		"for a moment":                       {queued: 3, processes: always(5), lasts: forksFor},
		"for long":                           {queued: 3, processes: always(5), lasts: forksFor + 200*time.Millisecond, want: 13},
		"no connection waits":                {queued: 0, processes: always(5), lasts: time.Minute},
		"more workers start":                 {queued: 3, processes: grows(time.Second), lasts: time.Minute},
		"workers start slowly":               {queued: 3, processes: grows(4 * time.Second), lasts: 4 * time.Second, want: 13},
		"all connections wait":               {queued: 16, processes: always(5), lasts: time.Minute},
		"processes are not seen":             {queued: 3, processes: always(0), lasts: blindFor},
		"processes are not seen, for longer": {queued: 3, processes: always(0), lasts: blindFor + 200*time.Millisecond, want: 13},
		"the CPUs are full":                  {queued: 3, processes: always(5), lasts: time.Minute, use: 0.98},
		"the CPUs are just not full":         {queued: 3, processes: always(5), lasts: time.Minute, use: fullAbove, want: 13},
		"another pool is in use":             {queued: 3, processes: always(5), lasts: time.Minute, full: 12},
		"no other pool is in use":            {queued: 3, processes: always(5), lasts: time.Minute, full: 13, want: 13},
	} {
		s := newShift(t, 0)
		s.full = x.full
		if x.use > 0 {
			s.Measure(s.now, x.use)
		}
		s.gate.busy = 16
		s.watch(x.lasts, x.queued, x.processes)
		if n, by := s.Workers(); n != x.want || (n > 0) != (by == byQueue) {
			t.Errorf("%s: %d workers by %s, want %d", name, n, by, x.want)
		}
	}
	s := newShift(t, 0)
	s.full = 12
	for range 6 {
		s.gate.busy = 16 // a style sheet, which needs no worker of a pool
		s.watch(100*time.Millisecond, 3, always(5))
		s.gate.busy = 15
		s.watch(400*time.Millisecond, 3, always(5))
	}
	s.expect("another pool seems to be in use for moments", 13, byQueue)
}

// TestMoreWorkersAreTriedAgain: if no connection waits but a request does, the gate tries an eighth more
// workers. It does so after 10 s at first. Each time that there weren't more workers, the pause doubles. Once more
// are in use than there seemed to be, the gate tries twice as many more.
func TestMoreWorkersAreTriedAgain(t *testing.T) {
	s := newShift(t, 0)
	s.polls(30, "a", "b", "c", "d")
	s.watch(time.Second, 0, always(5))
	s.watch(3*time.Second, 10, always(5))
	s.expect("ten of thirty wait", 20, byQueue)
	s.gate.busy = 20
	s.watch(usedFor-500*time.Millisecond, 0, always(5))
	s.expect("the connections are accepted, because other requests have ended", 20, byQueue)
	for _, x := range s.polls(20, "e", "f") {
		s.expectPhase(t, "more", x, queued)
	}
	s.watch(time.Second, 0, always(5))
	s.expect("two more", 22, byQueue)
	s.gate.busy = 22
	s.watch(usedFor, 0, always(5))
	s.expect("and again", 24, byQueue)
	s.gate.busy = 24
	s.watch(usedFor, 0, always(5))
	s.expect("they are in use, so twice as many more", 32, byQueue)
	s.gate.busy = 32
	s.watch(3*time.Second, 12, always(5))
	s.expect("more workers were tried, but there were none", 20, byQueue)
	s.gate.busy = 20
	s.watch(2*usedFor-time.Second, 0, always(5))
	s.expect("more workers aren't tried again so soon", 20, byQueue)
	s.polls(20, "g", "h") // the other clients' requests have timed out
	s.watch(time.Second, 0, always(5))
	s.expect("but later", 22, byQueue)

	g := newGate(nil)
	g.limits.cpus, g.limits.leastSlots = 2, 2
	g.setWorkers(40, "a test")
	for i, seconds := range []int{10, 20, 40, 80, 160, 320, 600, 600} {
		g.refute(time.Hour, 30-i)
		if want := time.Duration(seconds) * time.Second; g.workers.n != 30-i || g.workers.again != time.Hour+want {
			t.Errorf("seen %d times: %+v", i+1, g.workers)
		}
	}
	if g.refute(time.Hour, 25); g.workers.n != 23 {
		t.Errorf("more workers than known are in use: %+v", g.workers)
	}
	if g.refute(time.Hour, 1); g.workers.n != 3 {
		t.Errorf("the gate assumes too few workers: %+v", g.workers)
	}
}

// TestAStallIsNotTheNumberOfWorkers: a server that accepts nothing for a while, and then all connections, has more
// workers than were in use. The gate tests this as soon as a request has to wait for a worker.
func TestAStallIsNotTheNumberOfWorkers(t *testing.T) {
	s := newShift(t, 0)
	s.Found(s.now, 150, "Apache's MaxRequestWorkers")
	s.polls(43, "a", "b", "c", "d", "e", "f", "g", "h")
	s.watch(8*time.Second, 40, always(5))
	s.expect("forty wait", 3, byQueue)
	s.watch(time.Second, 0, always(5))
	s.expect("they were accepted, and no other request waits", 3, byQueue)
	xs := s.polls(40, "a", "b", "c", "d", "e", "f", "g", "h")
	s.watch(time.Second, 0, always(5))
	s.expect("twice the forty", 83, byQueue)
	s.watch(usedFor, 0, always(5))
	s.expect("and twice eighty", 150, byQueue)
	s.expectPhase(t, "the last", xs[39], holding)

	s = newShift(t, 0)
	s.Found(s.now, 150, "Apache's MaxRequestWorkers")
	s.gate.busy = 50
	s.watch(4*time.Second, 37, always(5))
	s.expect("37 wait", 13, byQueue)
	s.gate.busy = 0
	alone := s.polls(20, "i")
	s.watch(usedFor+time.Second, 0, always(5))
	s.expect("a client that is alone lacks workers", 26, byQueue)
	s.watch(usedFor, 0, always(5))
	s.expect("it still does", 52, byQueue)
	s.expectPhase(t, "its last", alone[19], holding)
}

// TestAFoundNumberIsUsedAsItIs: the gate uses a found number until connections wait for too long. From then on,
// it tries more workers only up to that number.
func TestAFoundNumberIsUsedAsItIs(t *testing.T) {
	s := newShift(t, 0)
	s.Found(s.now, 150, "Apache's MaxRequestWorkers")
	s.expect("found", 150, "Apache's MaxRequestWorkers")
	s.polls(90, "a", "b", "c", "d", "e", "f", "g", "h")
	s.expectState(t, "all polls hold a worker", map[string]int{"holding": 90})
	s.watch(time.Minute, 8, func(at time.Duration) int { return 5 + int(at/time.Second) })
	s.expect("while Apache starts one worker a second", 150, "Apache's MaxRequestWorkers")
	s.watch(3*time.Second, 8, always(64))
	s.expect("Apache starts no more workers", 82, byQueue)
	s.Found(s.now, 150, "Apache's MaxRequestWorkers")
	s.expect("the same number is found again", 82, byQueue)
	for range 6 {
		s.polls(90, "a", "b", "c", "d", "e", "f", "g", "h")
		s.watch(20*time.Second, 0, always(64))
	}
	s.expect("the workers come back", 150, byQueue)
	s.Found(s.now, 5, "php-fpm's pm.max_children")
	s.expect("another number", 5, "php-fpm's pm.max_children")
	s.Found(s.now, 0, "nothing")
	s.expect("no number is found any more", anyWorkers, byNothing)
}

// TestAConfiguredNumberIsANumber: a configured number is never changed, neither up nor down.
func TestAConfiguredNumberIsANumber(t *testing.T) {
	s := newShift(t, 12)
	s.expect("configured", 12, "backend.workers")
	s.Found(s.now, 40, "php-fpm")
	s.Found(s.now, 4, "php-fpm")
	s.expect("found", 12, "backend.workers")
	s.polls(20, "a", "b")
	s.gate.busy = 12
	s.watch(time.Minute, 5, always(4))
	s.expect("connections wait", 12, "backend.workers")
	p := bounded()
	p.Gate.Workers = 6
	s.SetPolicy(s.now, p)
	s.expect("another number is configured", 6, "backend.workers")
	p.Gate.Workers = 0
	s.SetPolicy(s.now, p)
	s.expect("no more", anyWorkers, byNothing)
}

// TestLacksWorkers: a worker is lacking if a waiting request would hold one for long, if its keys hold too
// many, or if it would compute and a CPU is idle. While all workers are busy, every waiting request lacks one.
func TestLacksWorkers(t *testing.T) {
	on := func(l level) func(*gate) {
		return func(g *gate) { g.home.queues[l].underShare.push(new(Ticket)) }
	}
	for name, x := range map[string]struct {
		waits           func(*gate) // nil: no request waits
		computing, busy int
		want            bool
	}{
		"no request waits":                    {computing: 1, busy: 16},
		"a page waits, a CPU is idle":         {waits: on(3), computing: 1, busy: 1, want: true},
		"a page waits, no CPU is idle":        {waits: on(3), computing: 2, busy: 2},
		"unknown cost, a CPU is idle":         {waits: on(fresh), computing: 1, busy: 1, want: true},
		"a light request, a CPU is idle":      {waits: on(level(lightRung)), computing: 1, busy: 1},
		"a light request, one worker free":    {waits: on(0), computing: 2, busy: 15},
		"a light request, no worker free":     {waits: on(0), computing: 2, busy: 16, want: true},
		"a light request, more than all busy": {waits: on(0), computing: 2, busy: 17, want: true},
		"a short poll":                        {waits: on(waitsAt(lightRung + 1)), computing: 2, busy: 2, want: true},
		"a long poll":                         {waits: on(waitsAt(rungs - 1)), computing: 2, busy: 2, want: true},
		"a request whose keys hold too many":  {waits: func(g *gate) { g.home.parked.push(new(Ticket)) }, computing: 2, busy: 2, want: true},
	} {
		g := shaped()
		if x.waits != nil {
			x.waits(g)
			g.all.n, g.contending = 1, []*site{{}, &g.home, {}}
		}
		g.load.computing[3], g.busy = x.computing, x.busy
		testkit.Same(t, x.want, g.lacksWorkers(), "%s: lacks workers", name)
	}
}

// TestWantsCPU: every waiting request that would compute and isn't short wants a CPU.
func TestWantsCPU(t *testing.T) {
	for l := range level(levels) {
		g := shaped()
		g.home.queues[l].underShare.push(&Ticket{})
		g.contending = []*site{{}, &g.home}
		testkit.Same(t, l > level(lightRung) && l <= fresh, g.wantsCPU(), "a request on level %d wants a CPU", l)
	}
}
