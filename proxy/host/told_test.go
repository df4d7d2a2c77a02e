package host

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/cpuaccount/process"
	"tempomat/internal/testkit"
)

func at(seconds float64) time.Time {
	return time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func used(ms float64) process.Usage {
	return process.Usage{CPU: time.Duration(ms * float64(time.Millisecond))}
}

func TestNumbers(t *testing.T) {
	n, other := newNumbers(), newNumbers()
	rapid.Check(t, func(t *rapid.T) {
		number, text := n.Next()
		if n.read([]byte(text)) != number {
			t.Fatalf("%d was written as %q, which is %d", number, text, n.read([]byte(text)))
		}
		if got := other.read([]byte(text)); got != 0 {
			t.Fatalf("what somebody else wrote is %d", got)
		}
		made := rapid.OneOf(
			rapid.StringMatching(`[0-9a-f]{32}`), rapid.StringN(0, 64, 64),
			rapid.Map(rapid.IntRange(0, 31), func(i int) string { // one digit is changed
				return text[:i] + string("123456789abcdef0"[strings.IndexByte("0123456789abcdef", text[i])]) + text[i+1:]
			}),
		).Draw(t, "made")
		if got := n.read([]byte(made)); got != 0 {
			t.Fatalf("%q passes for %d", made, got)
		}
	})
}

// TestClaims: processes send any reports, and only the right ones count.
func TestClaims(t *testing.T) {
	one, two := process.ID{PID: 1 << 22, Start: 1}, process.ID{PID: 1<<22 + 1, Start: 1}
	again := process.ID{PID: one.PID, Start: 2}
	for name, say := range map[string]struct {
		say    func(c *claims)
		who    process.ID // the process that serves request 1; zero: none
		serves bool       // whether it serves nothing else
		final  float64    // ms of use at the end of the request; 0: it has not ended
	}{
		"one says so":                      {func(*claims) {}, one, true, 0},
		"another one says so, too":         {func(c *claims) { c.begins(at(1), two, used(5), 1) }, one, true, 0},
		"another one says it has ended":    {func(c *claims) { c.ends(two, used(5), 1) }, one, true, 0},
		"it says another one has ended":    {func(c *claims) { c.ends(one, used(5), 2) }, one, true, 0},
		"it has ended":                     {func(c *claims) { c.ends(one, used(5), 1) }, one, true, 5},
		"it has ended twice":               {func(c *claims) { c.ends(one, used(5), 1); c.ends(one, used(9), 1) }, one, true, 5},
		"it says so again":                 {func(c *claims) { c.begins(at(1), one, used(9), 1) }, one, true, 0},
		"it serves another one":            {func(c *claims) { c.begins(at(1), one, used(9), 2) }, one, false, 9},
		"it ended, and serves another one": {func(c *claims) { c.ends(one, used(5), 1); c.begins(at(1), one, used(9), 2) }, one, true, 5},
		"its third one, as the first one runs": {func(c *claims) {
			c.begins(at(1), one, used(9), 2)
			c.ends(one, used(10), 2)
			c.begins(at(2), one, used(11), 3)
		}, one, false, 9},
		"another process of its number begins": {func(c *claims) { c.begins(at(1), again, used(1), 2) }, one, true, 0},
		"another process of its number ends":   {func(c *claims) { c.ends(again, used(5), 1) }, one, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims()
			if !c.begins(at(0), one, used(1), 1) {
				t.Fatal("nobody is believed")
			}
			x := c.of(1)
			say.say(c)
			u, over := x.final()
			if x.id != say.who || x.serves() != say.serves || over != (say.final > 0) || over && u != used(say.final) {
				t.Errorf("%+v serves it alone: %t, and has used %+v (%t); want %+v", x.id, x.serves(), u, over, say)
			}
		})
	}
}

// TestBetweenTwoRequests: a process uses some CPU time between two requests, and the right one of them pays for
// it.
func TestBetweenTwoRequests(t *testing.T) {
	id := process.ID{PID: 1 << 22, Start: 1}
	for name, c := range map[string]struct{ rest, begins, base float64 }{
		"a little is the next one's":  {5, 6, 5},
		"much was for somebody else":  {5, 105, 105},
		"nothing is nobody's":         {5, 5, 5},
		"as much as it may be is its": {5, 15, 5},
	} {
		x := newClaims()
		x.begins(at(0), id, used(1), 1)
		x.ends(id, used(c.rest), 1)
		x.begins(at(1), id, used(c.begins), 2)
		testkit.Same(t, used(c.base), x.of(2).base, "%s: it begins at", name)
	}
}

// TestClaimsAreFew: any number of processes may claim any number of requests, but only a limited number of
// claims is kept.
func TestClaimsAreFew(t *testing.T) {
	c := newClaims()
	for i := range 3 * mostClaims {
		c.begins(at(0), process.ID{PID: 1<<22 + i, Start: 1}, used(0), Number(i+1))
	}
	if c.byPID.Len() != mostClaims || c.byPID.Len() != len(c.byNumber) || c.of(3*mostClaims) == nil {
		t.Errorf("%d processes with %d requests", c.byPID.Len(), len(c.byNumber))
	}
}

// TestThreads: a process with threads serves several requests at once. None of them is measured, but later
// requests that it serves one at a time are.
func TestThreads(t *testing.T) {
	id := process.ID{PID: 1 << 22, Start: 1}
	c := newClaims()
	begin := func(now float64, n Number) *claim {
		t.Helper()
		if !c.begins(at(now), id, used(now), n) {
			t.Fatal("not believed")
		}
		return c.of(n)
	}
	first := begin(0, 1)
	second := begin(1, 2)
	c.ends(id, used(2), 2)
	third := begin(3, 3) // the first request still runs
	c.ends(id, used(4), 1)
	c.ends(id, used(4), 3)
	for n, x := range map[int]*claim{1: first, 2: second, 3: third} {
		if x.serves() {
			t.Errorf("request %d was served at the same time as others, and is believed", n)
		}
	}
	fourth := begin(1+forgets.Seconds(), 4)
	later := begin(2+2*forgets.Seconds(), 5) // the report of the fourth request's end was lost
	if !fourth.serves() || !later.serves() {
		t.Errorf("one at a time: the fourth one is believed %t, the fifth one %t", fourth.serves(), later.serves())
	}
}

// final returns the process's CPU use at the end of the request.
func (c *claim) final() (u process.Usage, ok bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.rest == nil {
		return u, false
	}
	return *c.rest, true
}
