package gossip

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestRestartedLearns: an instance is killed and restarted while others know debts. The restarted instance soon
// knows them as well.
func TestRestartedLearns(t *testing.T) {
	r := newReal()
	cars := []*sidecar{r.start(t), r.start(t), r.start(t)}
	together(t, cars...)
	for i := range 500 {
		cars[0].ask(fmt.Sprintf("debtor-%d", i), time.Duration(60+i)*time.Second)
	}
	knows := func(c *sidecar) bool { // the debts arrive in several messages, in any order
		for i := range 500 {
			if c.level(fmt.Sprintf("debtor-%d", i)) >= 0 {
				return false
			}
		}
		return true
	}
	testkit.Eventually(t, "all instances know the debts", func() bool { return knows(cars[1]) && knows(cars[2]) })
	for i := range cars {
		cars[i].end()
		began := time.Now()
		cars[i] = r.start(t)
		testkit.Eventually(t, "the new instance knows the debts", func() bool { return knows(cars[i]) })
		t.Logf("restart %d: debts known %v after the start", i, time.Since(began).Round(time.Millisecond))
		if a, b := cars[i].level("debtor-7"), cars[(i+1)%3].level("debtor-7"); a < b-0.3 || a > b+0.3 {
			t.Errorf("restart %d: the client owes %v here and %v there", i, -a, -b)
		}
	}
	if s := cars[2].State(); s.Counts.Learned == 0 {
		t.Errorf("the state is %+v", s)
	}
}

// TestSplitHealsWithoutConfiguredPeers: after the only configured peer has gone for good, two sides of a split
// still meet again, although neither is in the other's configuration.
func TestSplitHealsWithoutConfiguredPeers(t *testing.T) {
	r := newReal()
	seed := r.start(t)
	first := r.start(t)
	address := r.addresses[1]
	r.addresses = r.addresses[:1]
	second := r.start(t)
	together(t, seed, first, second)
	seed.end()
	r.network.split(1, address)
	together(t, first)
	together(t, second)
	time.Sleep(2 * time.Second) // by then, memberlist has sent its last messages to the lost member
	r.network.split(0, address)
	t.Logf("the split healed after %v", together(t, first, second))
	first.ask("whole", 10*time.Second)
	testkit.Eventually(t, "a charge reaches the other side", func() bool { return second.level("whole") < 0 })
}

// TestKeysRotate changes the key while the fleet works. Afterwards, an instance with only the old key can't
// join.
func TestKeysRotate(t *testing.T) {
	former, latter := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	r := newReal()
	r.options.Keys, r.options.Logf = [][]byte{former}, func(string, ...any) {} // only with Logf are foreign keys noticed
	cars := []*sidecar{r.start(t), r.start(t)}
	together(t, cars...)
	for i, keys := range [][][]byte{{former, latter}, {latter, former}, {latter}} {
		for j, c := range cars {
			testkit.Must(t, c.SetKeys(keys))
			name := fmt.Sprintf("step-%d-%d", i, j)
			c.ask(name, 5*time.Second)
			testkit.Eventually(t, "a charge arrives in "+name, func() bool { return cars[1-j].level(name) < 0 })
		}
	}
	for _, c := range cars {
		c.foreign.Store(0)
	}
	old := r.start(t)
	testkit.Eventually(t, "an instance rejects the old key", func() bool { return cars[0].foreign.Load()+cars[1].foreign.Load() > 0 })
	if old.State().Sidecars != 1 || cars[0].State().Sidecars != 2 {
		t.Error("an instance with only the old key has joined")
	}
	if err := cars[0].SetKeys([][]byte{{1}}); err == nil {
		t.Error("a key of one byte was accepted")
	}
	if err := cars[0].SetKeys(nil); err == nil {
		t.Error("all keys were removed")
	}
}

// TestJoinByName: an instance finds the others through a name in DNS.
func TestJoinByName(t *testing.T) {
	r := newReal()
	first := r.start(t)
	_, port := splitAddress(r.addresses[0])
	r.addresses = []string{fmt.Sprintf("localhost:%d", port)}
	together(t, first, r.start(t))
}

// TestLastError: the state shows why a host in Join can't be reached, until it can.
func TestLastError(t *testing.T) {
	for _, host := range []string{testkit.FreeAddress(t), "missing.invalid:7946"} {
		r := newReal()
		r.addresses = []string{host}
		s := r.start(t)
		name, _ := splitAddress(host)
		testkit.Eventually(t, "the error names "+name, func() bool { return strings.Contains(s.State().LastError, name) })
	}
	r := newReal()
	r.addresses = []string{testkit.FreeAddress(t)}
	first := r.start(t)
	testkit.Eventually(t, "it fails", func() bool { return first.State().LastError != "" })
	r.options.Listen = r.addresses[0]
	second := r.start(t)
	testkit.Eventually(t, "it no longer fails", func() bool { return first.State().LastError == "" })
	together(t, first, second)
}

// TestKeysAreChecked: a key of a wrong length is an error.
func TestKeysAreChecked(t *testing.T) {
	if _, err := New(Options{Listen: "127.0.0.1:7946", Keys: [][]byte{make([]byte, 16), make([]byte, 5)}}); err == nil {
		t.Error("a key of 5 bytes is accepted")
	}
}

// TestStateOfJoiningNode: the state of a node that has just joined is accepted even if the replica doesn't know
// that node yet. Otherwise, the next state would arrive ten seconds later.
func TestStateOfJoiningNode(t *testing.T) {
	r := newReal()
	s := r.join(t)
	sink := newLedger()
	s.replica, s.sink = NewReplica(s.id, sink), sink
	s.roster.NotifyJoin(&memberlist.Node{Name: "joining", Meta: appendMeta(nil, 7)})
	<-s.roster.changed // serve has received the signal but not set the members yet
	joining := NewReplica(7, newLedger())
	delegate{Sharer: s}.MergeRemoteState(joining.state([]debt{{testKey("a"), time.Minute}}), true)
	if c := s.State().Counts; c.Learned != 1 || c.Strangers != 0 {
		t.Errorf("%+v", c)
	}
}

// TestLocalDebtsAreNotShared: instances that join learn debts, but not those of a local-only class.
func TestLocalDebtsAreNotShared(t *testing.T) {
	p, now := testPolicy(), time.Now()
	p.Classes = append(p.Classes, limiter.ClassInfo{Name: "session", Budget: limiter.Budget{CPUs: 1, LocalOnly: true}})
	l := limiter.New(now, p, 1<<10, nil)
	l.Debit(now, limiter.Charge{Key: testKey("a"), Cost: time.Hour})
	l.Debit(now, limiter.Charge{Key: limiter.Key{Class: "session", ID: "s"}, Cost: time.Hour})
	if d := debtsOf(now, l); len(d) != 1 || d[0].key != testKey("a") {
		t.Errorf("%+v", d)
	}
}

// TestOnlySpendingIsOffered: costs are shared, but not decisions.
func TestOnlySpendingIsOffered(t *testing.T) {
	s, err := New(Options{Listen: "127.0.0.1:7946"})
	testkit.Must(t, err)
	for range 100 {
		if !s.Offer(limiter.Charge{Key: testKey("a"), Event: limiter.Rejected}) {
			t.Fatal("a charge was dropped")
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
