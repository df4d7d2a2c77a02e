package lifecycle_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// rig is a gate in front of a backend with one CPU.
type rig struct {
	t     *testing.T
	now   time.Time
	gate  *lifecycle.Shared
	rules lifecycle.Rules
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, now: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	l := limiter.New(r.now, limiter.Policy{
		Mode: limiter.Fair, MaxHold: time.Minute, MaxHeld: 100,
		Gate:    limiter.GateOptions{CPUs: 1, Workers: 16, Heavy: 1},
		Classes: []limiter.ClassInfo{{Name: "slash32", Budget: limiter.Budget{CPUs: 1, Burst: time.Hour}}},
	}, 1000, nil)
	r.gate = lifecycle.New(r.now, l)
	r.rules.Classifier = classify.New(classify.Config{
		Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}},
		Exempt:  []classify.Exemption{{Path: "/health"}},
	})
	r.rules.Meter = cpuaccount.NewMeter(cpuaccount.Corrected, 1)
	r.rules.Newcomers = newcomer.New()
	r.gate.SetWorkers(r.rules.Meter)
	return r
}

// pass advances the time.
func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// page is a browser's request from its own address.
func page(i int, path string) *http.Request {
	q := httptest.NewRequest(http.MethodGet, path, nil)
	q.RemoteAddr = fmt.Sprintf("192.0.%d.1:1", i)
	q.Header.Set("Accept", "text/html")
	q.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
	return q
}

// notOwn says that a request isn't a call of the site to itself.
func notOwn() bool { return false }

// arrive makes a request arrive.
func (r *rig) arrive(q *http.Request, uploads bool) *lifecycle.Life {
	l := new(lifecycle.Life)
	l.Classify(r.now, r.gate, &r.rules, q, notOwn)
	if !l.Who.Exempt {
		l.Arrive(r.now, uploads)
	}
	return l
}

// begin makes a request arrive that goes to the backend at once.
func (r *rig) begin(q *http.Request, uploads bool) *lifecycle.Life {
	r.t.Helper()
	l := r.arrive(q, uploads)
	if !isDecided(l) || !l.Admitted() {
		r.t.Fatalf("%s waits, or is refused", q.URL.Path)
	}
	l.Begin(r.now)
	return l
}

func isDecided(l *lifecycle.Life) bool { return testkit.Ready(l.Decided()) }

// waiter makes requests arrive until one must wait.
func (r *rig) waiter(q func(i int) *http.Request) (waits *lifecycle.Life, others []*lifecycle.Life) {
	r.t.Helper()
	for i := range 50 {
		l := r.arrive(q(i), false)
		if !isDecided(l) {
			return l, others
		}
		others = append(others, l)
		l.Admitted()
		l.Begin(r.now)
	}
	r.t.Fatal("nobody waits")
	return nil, nil
}

func (r *rig) busy() int { return r.gate.Limiter.GateState().Busy }

// learn records answers to clients at many addresses, so that the guess is sure.
func (r *rig) learn(path string, cost, idle time.Duration) {
	for i := range 20 {
		id := fmt.Sprintf("198.51.%d.1", i)
		r.gate.Guess.Learn(r.now, cpuaccount.Kind{Shape: path, URL: path, Client: id, Address: id}, cost, idle)
	}
}

// kindOf returns the kind of the first client's request for a path.
func kindOf(path string) cpuaccount.Kind {
	return cpuaccount.Kind{Shape: path, URL: path, Client: "192.0.0.1", Address: "192.0.0.1"}
}

// TestEnds ends a request in every possible way, and checks what the request paid, whether later guesses learnt
// from it, and when its place was free.
func TestEnds(t *testing.T) {
	for name, end := range map[string]struct {
		do     func(r *rig, l *lifecycle.Life)
		cost   time.Duration // 0: the guess
		learns bool
	}{
		"answered": {func(r *rig, l *lifecycle.Life) { l.Settle(r.now, true, false) }, time.Second, true},
		"an orphan that is answered": {func(r *rig, l *lifecycle.Life) {
			l.Orphan(r.now)
			l.Settle(r.now, true, false)
		}, time.Second, true},
		"given up":      {func(r *rig, l *lifecycle.Life) { l.Settle(r.now, false, false) }, time.Second, false},
		"a broken body": {func(r *rig, l *lifecycle.Life) { l.Settle(r.now, false, true) }, 0, false},
		"an orphan that is given up": {func(r *rig, l *lifecycle.Life) {
			l.Orphan(r.now)
			l.Settle(r.now, false, false)
		}, 0, false},
		"settled twice": {func(r *rig, l *lifecycle.Life) {
			l.Settle(r.now, false, false)
			r.pass(time.Minute)
			if l.Settle(r.now, true, false) {
				r.t.Error("settled twice: both count")
			}
		}, time.Second, false},
		"lingering, longer than was guessed": {func(r *rig, l *lifecycle.Life) {
			r.pass(9 * time.Second)
			l.Linger(r.now)
			l.Expire(r.now)
		}, 10 * time.Second, false},
		"lingering, that nobody had accepted": {func(r *rig, l *lifecycle.Life) {
			l.Measured(r.now, cpuaccount.Reading{Waits: true})
			l.Linger(r.now)
			l.Expire(r.now)
		}, 0, false},
		"lingering": {func(r *rig, l *lifecycle.Life) {
			if !l.Linger(r.now) || r.busy() != 1 {
				r.t.Errorf("lingering: %d at the gate", r.busy())
			}
			r.pass(time.Minute)
			l.Expire(r.now)
		}, 0, false},
	} {
		r := newRig(t)
		l := r.begin(page(0, "/a"), false)
		l.Guess = 5 * time.Second // as if the guess had been this high
		r.pass(time.Second)
		end.do(r, l)
		if end.cost == 0 {
			end.cost = l.Guess
		}
		testkit.Same(t, end.cost, l.Cost, "%s: it cost", name)
		testkit.Same(t, 0, r.busy(), "%s: at the gate", name)
		if guess, _, sure := r.gate.Guess.Of(r.now, kindOf("/a")); (sure && guess >= time.Second) != end.learns {
			t.Errorf("%s: the guess is %s, sure %t", name, guess, sure)
		}
		if l.Linger(r.now) || l.Orphan(r.now) {
			t.Errorf("%s: it goes on after its end", name)
		}
		l.Leave(r.now)
	}
}

// TestTick: a long request teaches the guess while it runs, but not after its end.
func TestTick(t *testing.T) {
	for _, ended := range []bool{false, true} {
		r := newRig(t)
		l := r.begin(page(0, "/a"), false)
		r.pass(10 * time.Second)
		if ended {
			l.Settle(r.now, false, false)
		}
		l.Tick(r.now)
		if known := r.gate.Guess.Running(r.now, kindOf("/a")) > 0; known == ended {
			t.Errorf("ended %t: the guess knows of it: %t", ended, known)
		}
	}
}

// TestOrphan: an abandoned request keeps its place, and is reported once.
func TestOrphan(t *testing.T) {
	r := newRig(t)
	l := r.begin(page(0, "/a"), false)
	r.pass(time.Second)
	if l.IsOrphan() || !l.Orphan(r.now) || l.Orphan(r.now.Add(time.Second)) {
		t.Error("that its client left is no news, or twice")
	}
	if g := r.gate.Limiter.GateState(); g.Busy != 1 || g.Orphans != 1 || !l.Left().Equal(r.now) {
		t.Errorf("%d at the gate, %d orphans, left at %s", g.Busy, g.Orphans, l.Left())
	}
}

// TestUpload: uploads are a kind of their own, and surely hold their workers.
func TestUpload(t *testing.T) {
	r := newRig(t)
	l := r.begin(page(0, "/a"), true)
	if g := r.gate.Limiter.GateState(); g.Busy != 1 || g.Holding != 1 {
		t.Errorf("%d at the gate, %d of them only hold a worker; want 1 of 1", g.Busy, g.Holding)
	}
	r.pass(time.Second)
	l.Settle(r.now, true, false)
	if guess, _, sure := r.gate.Guess.Of(r.now, kindOf("/a")); sure {
		t.Errorf("the page is guessed at %s after an upload", guess)
	}
}

// TestFormsAreCheap: a form that is sent to its own URL doesn't seem as expensive as the answer.
func TestFormsAreCheap(t *testing.T) {
	r := newRig(t)
	for i := range 20 {
		q, cost := page(i, "/checkout"), 50*time.Millisecond
		if i%2 == 0 {
			q.Method, cost = http.MethodPost, time.Second
		}
		l := r.begin(q, false)
		r.pass(cost)
		l.Settle(r.now, true, false)
	}
	if l := r.arrive(page(20, "/checkout"), false); l.Guess > 60*time.Millisecond {
		t.Errorf("the form is guessed at %s", l.Guess)
	}
}

// TestStays: a stream uses no CPU, and similar requests count as streams at once.
func TestStays(t *testing.T) {
	r := newRig(t)
	l := r.begin(page(0, "/a"), false)
	l.Stays(r.now)
	testkit.Same(t, 1, r.gate.Limiter.GateState().Holding, "only hold a worker")
	if _, idle, _ := r.gate.Guess.Of(r.now, kindOf("/a")); idle < time.Second {
		t.Errorf("the like of it is guessed to hold a worker for %s", idle)
	}
	r.pass(time.Minute)
	l.Tick(r.now)
	l.Settle(r.now, true, false)
	if most := time.Minute / 16; l.Cost > most {
		t.Errorf("a minute in one of 16 workers costs %s, want %s at most", l.Cost, most)
	}
}

// givePass gives a request the pass with which a neighbour was redirected.
func (r *rig) givePass(q *http.Request) {
	var neighbour lifecycle.Life
	from := q.RemoteAddr
	q.RemoteAddr = strings.Replace(from, ".1:", ".2:", 1)
	neighbour.Classify(r.now, r.gate, &r.rules, q, notOwn)
	w := httptest.NewRecorder()
	neighbour.Redirect(r.now, w)
	q.RemoteAddr = from
	c := w.Result().Cookies()[0]
	q.Header["Cookie"] = []string{c.Name + "=" + c.Value}
}

// TestRedirectAfter checks the time after which a waiting request is redirected.
func TestRedirectAfter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *rig, q *http.Request)
		want   time.Duration
	}{
		"a newcomer":   {func(*rig, *http.Request) {}, 100 * time.Millisecond},
		"no page":      {func(_ *rig, q *http.Request) { q.Header.Set("Accept", "image/png") }, 0},
		"switched off": {func(r *rig, _ *http.Request) { r.rules.Newcomers = nil }, 0},
		"no stranger": {func(r *rig, _ *http.Request) {
			r.rules.Standing = standing.New([16]byte{1}, standing.Config{
				Attested: 4, ClientClass: "slash32", SessionClass: "session",
				Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.0.0/16")},
			})
		}, 0},
		"with a pass": {func(r *rig, q *http.Request) { r.givePass(q) }, 0},
	} {
		r := newRig(t)
		l, _ := r.waiter(func(i int) *http.Request {
			q := page(i, fmt.Sprintf("/page%c", 'a'+i%26))
			c.change(r, q)
			return q
		})
		testkit.Same(t, c.want, l.RedirectAfter(), "%s: redirected after", name)
		l.Leave(r.now)
		testkit.Same(t, 0, r.gate.Limiter.GateState().Queued, "%s: wait after it left", name)
	}
}

// TestRedirectedIsNotUntried: the guess of a page's cost stays sure if newcomers that requested the page are
// redirected and don't return.
func TestRedirectedIsNotUntried(t *testing.T) {
	for _, redirected := range []bool{true, false} {
		r := newRig(t)
		const url = "/a?id=1"
		for i := range 20 {
			r.gate.Guess.Learn(r.now, cpuaccount.Kind{Shape: "/a?id", URL: fmt.Sprint("/a?id=x", i), Client: fmt.Sprint(i)}, time.Second, 0)
		}
		for i := range 10 {
			l := r.arrive(page(i, url), false)
			if redirected {
				l.Redirect(r.now, httptest.NewRecorder())
			}
			l.Leave(r.now)
		}
		k := kindOf("/a?id")
		k.URL = url
		if _, _, sure := r.gate.Guess.Of(r.now, k); sure != redirected {
			t.Errorf("asked for ten times, redirected %t: its cost is sure %t", redirected, sure)
		}
	}
}

// TestBegin: a request that is similar to ones that mostly wait is charged as they are.
func TestBegin(t *testing.T) {
	r := newRig(t)
	r.learn("/a", time.Millisecond, time.Minute)
	l := r.begin(page(0, "/a"), false)
	r.pass(time.Second)
	if got := l.SoFar(r.now); got > time.Second/10 {
		t.Errorf("charged %s for a second of waiting", got)
	}
}

// TestReguess: a waiting page turns out to be cheap, because similar requests have been answered in the
// meantime.
func TestReguess(t *testing.T) {
	r := newRig(t)
	same := func(i int) *http.Request { return page(i, "/a") }
	l, _ := r.waiter(same)
	r.learn("/a", time.Millisecond, 0)
	l.Reguess(r.now)
	r.gate.Limiter.Advance(r.now)
	if !isDecided(l) || !l.Admitted() {
		t.Errorf("it waits on though its kind is known to be light: %+v", l.Verdict)
	}
}

// TestExempt: an exempt request has no place at the limiter, but otherwise goes through the same steps.
func TestExempt(t *testing.T) {
	r := newRig(t)
	l := r.arrive(page(0, "/health"), false)
	if !l.Who.Exempt || l.WouldRefuse() {
		t.Fatal("it is not exempt")
	}
	l.Begin(r.now)
	r.pass(time.Second)
	l.Tick(r.now)
	h := http.Header{standing.Header: {"8"}, cpuaccount.CostHeader: {"1"}}
	if l.Answered(r.now, http.StatusOK, h); len(h) != 0 {
		t.Errorf("the client is told %v", h)
	}
	l.Stays(r.now)
	if !l.Orphan(r.now) || l.Linger(r.now) || !l.Settle(r.now, true, false) || l.Cost != time.Second {
		t.Errorf("it cost %s", l.Cost)
	}
	l.Leave(r.now)
	testkit.Same(t, 0, r.rules.Meter.Running(), "at the backend after its end")
}

// TestMeasure compares the charges with the CPU use, from the first measurement on.
func TestMeasure(t *testing.T) {
	r := newRig(t)
	l := r.begin(page(0, "/a"), false)
	r.pass(500 * time.Millisecond)
	r.gate.Measure(r.now, r.rules.Meter, cpuaccount.Use{Own: -1, Lacked: -1}, func(yield func(*lifecycle.Life) bool) { yield(l) })
	r.pass(500 * time.Millisecond)
	if got := l.SoFar(r.now); got >= 900*time.Millisecond {
		t.Errorf("charged %s in a second of which half was measured to be idle", got)
	}
	if n, _ := r.gate.SetWorkers(r.rules.Meter); n != 16 {
		t.Errorf("%d workers, want 16", n)
	}
}
