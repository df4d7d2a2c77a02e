package gossip

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestRestartedLearns: a sidecar is killed and started anew while others know of
// debts. The new one knows of them soon.
func TestRestartedLearns(t *testing.T) {
	r := newReal()
	cars := []*sidecar{r.start(t), r.start(t), r.start(t)}
	together(t, cars...)
	for i := range 500 {
		cars[0].ask(fmt.Sprintf("debtor-%d", i), time.Duration(10+i)*time.Second)
	}
	knows := func(c *sidecar) bool { // they come in several messages, in any order
		for i := range 500 {
			if c.level(fmt.Sprintf("debtor-%d", i)) >= 0 {
				return false
			}
		}
		return true
	}
	testkit.Eventually(t, "all know of the debts", func() bool { return knows(cars[1]) && knows(cars[2]) })
	for i := range cars {
		cars[i].end()
		began := time.Now()
		cars[i] = r.start(t)
		testkit.Eventually(t, "the new one knows of the debts", func() bool { return knows(cars[i]) })
		t.Logf("restart %d: debts known %v after the start", i, time.Since(began).Round(time.Millisecond))
		if a, b := cars[i].level("debtor-7"), cars[(i+1)%3].level("debtor-7"); a < b-0.3 || a > b+0.3 {
			t.Errorf("restart %d: it owes %v here and %v there", i, -a, -b)
		}
	}
	if s := cars[2].State(); s.Counts.Learned == 0 {
		t.Errorf("the state says %+v", s)
	}
}

// TestSplitHeals: two sides that do not see each other any more, and find together
// when they can.
func TestSplitHeals(t *testing.T) {
	r := newReal()
	cars := []*sidecar{r.start(t), r.start(t), r.start(t)}
	together(t, cars...)
	r.network.split(1, r.addresses[2])
	missed := max(together(t, cars[:2]...), together(t, cars[2:]...))
	cars[0].ask("apart", 10*time.Second)
	testkit.Eventually(t, "the side knows", func() bool { return cars[1].level("apart") < 0 })
	if cars[2].level("apart") != testBurst {
		t.Error("the split lets something through")
	}
	r.Heal()
	healed := together(t, cars...)
	cars[2].ask("whole", 10*time.Second)
	known := testkit.Eventually(t, "all know", func() bool { return cars[0].level("whole") < 0 && cars[1].level("whole") < 0 })
	t.Logf("the split was noticed after %v, healed after %v; charges reached all in %v", missed, healed, known)
	for i, c := range cars {
		if l := c.level("apart"); l < 1.0/3-10.1 {
			t.Errorf("sidecar %d: it owes %v, more than it spent", i, -l)
		}
	}
}

// TestKeysRotate changes the key while the fleet works, and nobody who has only the
// old one comes in after that.
func TestKeysRotate(t *testing.T) {
	former, latter := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	r := newReal()
	r.options.Keys = [][]byte{former}
	cars := []*sidecar{r.start(t), r.start(t)}
	together(t, cars...)
	for i, keys := range [][][]byte{{former, latter}, {latter, former}, {latter}} {
		for j, c := range cars {
			if err := c.SetKeys(keys); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("step-%d-%d", i, j)
			c.ask(name, 5*time.Second)
			testkit.Eventually(t, "a charge comes through in "+name, func() bool { return cars[1-j].level(name) < 0 })
		}
	}
	old := r.start(t)
	time.Sleep(time.Second) // for what must not happen
	if old.State().Sidecars != 1 || cars[0].State().Sidecars != 2 {
		t.Error("who has only the old key was let in")
	}
	if err := cars[0].SetKeys([][]byte{{1}}); err == nil {
		t.Error("a key of one byte was taken")
	}
	if err := cars[0].SetKeys(nil); err == nil {
		t.Error("all keys were taken away")
	}
}

// TestJoinByName: a sidecar finds the others by a name that is to be looked up.
func TestJoinByName(t *testing.T) {
	r := newReal()
	first := r.start(t)
	_, port, _ := splitAddress(r.addresses[0])
	r.addresses = []string{fmt.Sprintf("localhost:%d", port)}
	together(t, first, r.start(t))
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*Options)
		fault  string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Listen = "nonsense" }, "listen"},
		{func(o *Options) { o.Listen = "127.0.0.1:0" }, "no port"},
		{func(o *Options) { o.Advertise = "a:b" }, "advertise"},
		{func(o *Options) { o.Keys = [][]byte{make([]byte, 16), make([]byte, 5)} }, "key size"},
	} {
		o := Options{Listen: "127.0.0.1:7946"}
		c.change(&o)
		if _, err := New(o); (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("want fault %q, got %v", c.fault, err)
		}
	}
}

// TestLocalDebtsAreNotTold: newcomers hear of debts, but of none of a class that is local only.
func TestLocalDebtsAreNotTold(t *testing.T) {
	p, now := testPolicy(), time.Now()
	p.Classes = append(p.Classes, limiter.ClassInfo{Name: "session", Budget: limiter.Budget{CPUs: 1, LocalOnly: true}})
	l := limiter.New(now, p, 1<<10, nil)
	l.Debit(now, limiter.Charge{Key: testKey("a"), Cost: time.Hour})
	l.Debit(now, limiter.Charge{Key: limiter.Key{Class: "session", ID: "s"}, Cost: time.Hour})
	if d := debtsOf(now, l); len(d) != 1 || d[0].key != testKey("a") {
		t.Errorf("%+v", d)
	}
}

// TestOnlySpendingIsOffered: what was decided is nobody's business.
func TestOnlySpendingIsOffered(t *testing.T) {
	s, err := New(Options{Listen: "127.0.0.1:7946"})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if !s.Offer(limiter.Charge{Key: testKey("a"), Event: limiter.Rejected}) {
			t.Fatal("dropped")
		}
	}
	n := 0
	for s.Offer(limiter.Charge{Key: testKey("a"), Cost: 1}) && n < 2*outboxCharges {
		n++
	}
	if got := s.State(); n == 0 || n > outboxCharges/8 || got.Counts.Dropped != 1 || got.Sidecars != 1 {
		t.Errorf("%d taken, state %+v", n, got)
	}
}
