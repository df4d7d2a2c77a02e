package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestPendingIsBounded: charges are added up by key. The number of keys and their age are limited.
func TestPendingIsBounded(t *testing.T) {
	p, start := pending{}, time.Now()
	for i, id := range []string{"a", "b", "a", "b"} {
		p.add(limiter.Charge{Key: client(id), Cost: time.Duration(i + 1), At: start.Add(time.Duration(i) * time.Second)})
	}
	for i := range pendingKeys {
		if taken := p.add(limiter.Charge{Key: client(fmt.Sprint(i)), Cost: 1, At: start.Add(time.Minute)}); taken != (i < pendingKeys-2) {
			t.Fatalf("key %d is accepted: %t", i+3, taken)
		}
	}
	testkit.Same(t, 2, p.forget(start.Add(3*time.Second), 2*time.Second), "charges that are lost: those of a") // a began 3 s ago, b 2 s ago
	if d := p[client("b")]; d.cost != 6 || d.charges != 2 {
		t.Errorf("%+v", d)
	}
}

// TestEarnedWhileItRan: a key that keeps to its rate is never in debt, even if it can't save anything. Two
// requests at a time exceed its rate.
func TestEarnedWhileItRan(t *testing.T) {
	t.Parallel()
	direct, n := startServer(t).direct(), names{prefix: "p:"}
	s := NewSharer(Options{}, limiter.Policy{})
	b := s.batch(time.Now())
	b.keys = append(b.keys, n.account(client("steady")))
	b.args = append(b.args, "10000000", "0", "100000000", "10000000", "") // 10 s of cost in 10 s, no burst
	for i, want := range []bool{false, true} {                            // both charges arrive at the same moment
		a, err := s.answer(time.Now(), s.script.Exec(t.Context(), direct, b.keys, b.args))
		if err != nil || len(a.owes) != 1 {
			t.Fatalf("request %d: %+v, %v", i, a, err)
		}
		if owes, err := a.owes[0].AsInt64(); err != nil || (owes > 5e6) != want {
			t.Errorf("request %d: %d %v, owes %v", i, owes, err, want)
		}
	}
}

// TestRan checks the time for which earnings pay for requests: never more than the CPU time that they used.
func TestRan(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ began, used, want time.Duration }{
		{-10 * time.Second, 4 * time.Second, 4 * time.Second},
		{-3 * time.Second, 4 * time.Second, 3 * time.Second},
		{time.Second, 4 * time.Second, 0}, // the clock jumped
	} {
		x := debit{began: now.Add(c.began), used: c.used}
		testkit.Same(t, c.want, x.ran(now), "%+v: ran for", c)
	}
}

// TestStandingCounts: a client whose standing multiplies its earnings by four owes no more in Redis than here,
// and pays its debt in a quarter of the time.
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
		t.Errorf("the client owes %v although it had four bursts", -cars[1].level("person"))
	}
	for range 3 { // 6 s of CPU time; a burst is 2 s
		spend()
	}
	if l := cars[1].level("person"); l >= 0 || l < testBurst-4*3/4.0 {
		t.Errorf("the client's level is %v", l)
	}
}

func TestRates(t *testing.T) {
	p := limiter.Policy{Classes: []limiter.ClassInfo{
		{Name: "a", Budget: limiter.Budget{CPUs: 0.25, Burst: 3 * time.Second}},
		{Name: "told", Budget: limiter.Budget{CPUs: 1, External: true}},
		{Name: "none"},
		{Name: "session", Budget: limiter.Budget{CPUs: 1, LocalOnly: true}},
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

// TestSharerTakesSharedClasses: the Sharer accepts only settled charges of shared classes. A new policy may
// have other classes.
func TestSharerTakesSharedClasses(t *testing.T) {
	s := NewSharer(Options{Address: "127.0.0.1:1"}, testPolicy())
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
		testkit.Same(t, 0, offer(c), "%+v: slot", c)
	}
	testkit.Same(t, 1, offer(settled), "settled charges that are shared")
	s.SetPolicy(limiter.Policy{})
	testkit.Same(t, 0, offer(settled), "charges of a removed class that are shared")
}

func TestSeal(t *testing.T) {
	a, b := newSeal("salt"), newSeal("")
	for _, k := range []limiter.Key{client("203.0.113.9"), {}, {Class: "c"}, {Class: "c", ID: "\x00\xff" + strings.Repeat("x", 1000)}} {
		sealed := a.close(k)
		if got, ok := a.open(sealed); !ok || got != k {
			t.Errorf("%q opens as %q, %v", k, got, ok)
		}
		if _, ok := b.open(sealed); ok {
			t.Error("another salt opens the sealed key")
		}
		if k.ID != "" && strings.Contains(sealed, k.ID) {
			t.Error("the key is readable although it is sealed")
		}
	}
	for _, k := range []limiter.Key{client(strings.Repeat("x", longestKey)), {Class: "a\x00b"}} {
		testkit.Same(t, "", a.close(k), "%q: sealed", k)
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
