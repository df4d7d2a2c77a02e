package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tempomat/limiter"
)

// TestPendingIsBounded: charges are added up by key, of so many keys and for so long.
func TestPendingIsBounded(t *testing.T) {
	p, start := pending{}, time.Now()
	for i, id := range []string{"a", "b", "a", "b"} {
		p.add(limiter.Charge{Key: client(id), Cost: time.Duration(i + 1), At: start.Add(time.Duration(i) * time.Second)})
	}
	for i := range pendingKeys {
		if taken := p.add(limiter.Charge{Key: client(fmt.Sprint(i)), Cost: 1, At: start.Add(time.Minute)}); taken != (i < pendingKeys-2) {
			t.Fatalf("key %d is taken: %t", i+3, taken)
		}
	}
	if lost := p.forget(start.Add(3*time.Second), 2*time.Second); lost != 2 { // a began 3 s ago, b 2 s ago
		t.Errorf("%d are lost, want those of a", lost)
	}
	if d := p[client("b")]; d.cost != 6 || d.charges != 2 {
		t.Errorf("%+v", d)
	}
}

// TestEarnedWhileItRan: a key that keeps to its rate never owes, though nothing can
// be saved up. Two requests at a time are too much.
func TestEarnedWhileItRan(t *testing.T) {
	t.Parallel()
	direct, n := startServer(t).direct(), names{prefix: "p:"}
	charge := newScript(chargeScript)
	key, _ := n.account(client("steady"), 1)
	for i, want := range []bool{false, true} { // both at the same moment
		args := []string{"10000000", "0", "100000000", "0", "", "100", "10000000"} // 10 s that took 10 s, no burst
		got, err := pipeline(t.Context(), direct, []run{{charge, []string{key, n.log(0)}, args}})[0].AsIntSlice()
		if err != nil || len(got) != 2 || (got[1] > 5e6) != want {
			t.Errorf("request %d: %v %v, owes %v", i, got, err, want)
		}
	}
}

// TestRan: for as long as the requests, but no longer than what they used.
func TestRan(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ began, used, want time.Duration }{
		{-10 * time.Second, 4 * time.Second, 4 * time.Second},
		{-3 * time.Second, 4 * time.Second, 3 * time.Second},
		{time.Second, 4 * time.Second, 0}, // a clock that leapt
	} {
		if d := (debit{began: now.Add(c.began), used: c.used}); d.ran(now) != c.want {
			t.Errorf("%+v: ran for %v", c, d.ran(now))
		}
	}
}

// TestLocalClassesHaveNoRate: they have no account in Redis.
func TestLocalClassesHaveNoRate(t *testing.T) {
	p := testPolicy()
	shared := len(newRates(p))
	p.Classes = append(p.Classes, limiter.ClassInfo{Name: "session", Budget: limiter.Budget{CPUs: 1, LocalOnly: true}})
	if r := newRates(p); len(r) != shared || shared == 0 {
		t.Errorf("%v", r)
	}
}

// TestStandingCounts: who earns four times as much by its standing does not owe in
// Redis what it does not owe here, and owes the rest for a quarter of the time.
func TestStandingCounts(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	cars := [2]*sidecar{startSidecar(t, s.options()), startSidecar(t, s.options())}
	linked(t, cars[0], cars[1])
	spend := func() {
		now := time.Now()
		cars[0].sharer.Offer(limiter.Charge{
			Key: client("person"), Cost: 3 * time.Second, Standing: 4, At: now, Received: now, Until: now,
		})
		linked(t, cars[0], cars[1])
	}
	if spend(); cars[1].level("person") != testBurst {
		t.Errorf("it owes %v though four bursts were its own", -cars[1].level("person"))
	}
	for range 3 { // 6 s of its time, of which a burst is 2 s
		spend()
	}
	if l := cars[1].level("person"); l >= 0 || l < testBurst-4*3/4.0 {
		t.Errorf("its level is %v", l)
	}
}

func TestBreaker(t *testing.T) {
	var b breaker
	now := time.Now()
	trial := false
	admit := func(now time.Time) (ok bool) {
		ok, trial = b.admit(now)
		return ok
	}
	if !admit(now) || admit(now) || b.connected() {
		t.Error("at first one call finds out")
	}
	b.succeeded()
	for range 2 {
		if !admit(now) || !b.connected() {
			t.Error("then all are admitted")
		}
	}
	b.failed(now)
	pause := b.pause
	b.failed(now) // the other one under way
	if b.pause != pause || admit(now) || b.connected() {
		t.Error("after a failure none is, and it counts once")
	}
	for range 20 {
		if admit(b.next.Add(-1)) {
			t.Error("admitted before its time")
		}
		if now = b.next; !admit(now) || !trial || admit(now.Add(time.Hour)) {
			t.Error("one is admitted after a pause, and no other one while it tries")
		}
		b.failed(now)
	}
	if d := b.next.Sub(now); d > lastPause || d < lastPause/2 {
		t.Errorf("the last pause is %v", d)
	}
	admit(b.next)
	b.abandoned()
	if !admit(b.next) {
		t.Error("nobody may try as somebody went away")
	}
	b.succeeded()
	if !admit(now) || trial {
		t.Error("not admitted after a success")
	}
}

func TestRates(t *testing.T) {
	p := limiter.Policy{Classes: []limiter.ClassInfo{
		{Name: "a", Budget: limiter.Budget{CPUs: 0.25, Burst: 3 * time.Second}},
		{Name: "told", Budget: limiter.Budget{CPUs: 1, External: true}},
		{Name: "none"},
		{Name: "least", Budget: limiter.Budget{CPUs: 1e-300, Burst: time.Hour}},
	}}
	r := newRates(p)
	if want := (rate{perSecond: 4e6, burst: 12e6, most: 132e6}); r["a"] != want || len(r) != 2 {
		t.Errorf("%+v", r)
	}
	if r["least"].burst != mostMicros {
		t.Errorf("%+v", r["least"])
	}
}

// TestSharerTakesWhatIsShared: only what was settled, and of classes that are not
// told; another policy has other classes.
func TestSharerTakesWhatIsShared(t *testing.T) {
	s := NewSharer(Options{Addresses: []string{"127.0.0.1:1"}}, testPolicy())
	offer := func(c limiter.Charge) (taken int) {
		if !s.Offer(c) {
			t.Errorf("%+v is refused", c)
		}
		s.outbox.Drain(func(limiter.Charge) { taken++ })
		return taken
	}
	settled := limiter.Charge{Key: client("a"), Cost: 1}
	for _, c := range []limiter.Charge{
		{Key: client("a"), Cost: 1, Event: limiter.Rejected},
		{Key: client("a")},
		{Key: limiter.Key{Class: "other", ID: "a"}, Cost: 1},
	} {
		if offer(c) != 0 {
			t.Errorf("%+v is shared", c)
		}
	}
	if offer(settled) != 1 {
		t.Error("a settled charge is not shared")
	}
	s.SetPolicy(limiter.Policy{})
	if offer(settled) != 0 {
		t.Error("a class that is gone is shared")
	}
}

func TestSeal(t *testing.T) {
	a, b := newSeal("salt"), newSeal("")
	for _, k := range []limiter.Key{client("203.0.113.9"), {}, {Class: "c"}, {Class: "c", ID: "\x00\xff" + strings.Repeat("x", 1000)}} {
		sealed := a.close(k)
		if got, ok := a.open(sealed); !ok || got != k {
			t.Errorf("%q opens as %q, %v", k, got, ok)
		}
		if _, ok := b.open(sealed); ok {
			t.Error("another salt opens it")
		}
		if k.ID != "" && strings.Contains(sealed, k.ID) {
			t.Error("it can be read")
		}
	}
	for _, k := range []limiter.Key{client(strings.Repeat("x", longestKey)), {Class: "a\x00b"}} {
		if a.close(k) != "" {
			t.Errorf("%q is sealed", k)
		}
	}
}

func FuzzSeal(f *testing.F) {
	s := newSeal("salt")
	f.Add("")
	f.Add(s.close(client("a")))
	f.Fuzz(func(t *testing.T, sealed string) {
		if k, ok := s.open(sealed); ok {
			if again, ok := s.open(s.close(k)); !ok || again != k {
				t.Errorf("%q", k)
			}
		}
	})
}
