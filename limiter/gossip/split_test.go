package gossip

import (
	"fmt"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// meet makes nodes know each other, and no others.
func (p *party) meet(nodes ...Node) {
	for _, id := range nodes {
		var others []Node
		for _, o := range nodes {
			if o != id {
				others = append(others, o)
			}
		}
		p.replicas[id].SetMembers(p.now, others)
	}
}

// exchange makes two nodes learn each other's debts, like memberlist's exchange of states.
func (p *party) exchange(a, b Node, owed ...debt) {
	p.replicas[b].Received(p.now, p.replicas[a].state(owed))
	p.replicas[a].Received(p.now, p.replicas[b].state(nil))
}

// run lets epochs pass in which all packets arrive.
func (p *party) run(epochs int, nodes ...Node) {
	for range epochs {
		for _, s := range p.tick(nodes...) {
			p.deliver(s)
		}
	}
}

// want checks what a node charged a key for other nodes.
func (p *party) want(t *testing.T, id Node, key string, want time.Duration) {
	t.Helper()
	testkit.Same(t, want, p.sinks[id].debits[testKey(key)], "node %d charged to %s", id, key)
}

// TestSplit: costs of requests on one side of a split aren't charged on the other side. Once the sides have met
// again, new charges count on both.
func TestSplit(t *testing.T) {
	p := newParty(1, 2, 3)
	p.charge(1, "a", time.Second)
	p.run(1, 1, 2, 3)
	p.meet(1, 2)
	p.meet(3)
	for range 2 * silence / epoch {
		p.charge(1, "a", 10*time.Millisecond)
		p.charge(3, "a", 10*time.Millisecond)
		p.run(1, 1, 2, 3)
	}
	p.want(t, 3, "a", time.Second)
	p.want(t, 2, "a", time.Second+1280*time.Millisecond)
	p.meet(1, 2, 3)
	p.charge(1, "a", 10*time.Millisecond)
	p.charge(3, "a", 10*time.Millisecond)
	p.run(1, 1, 2, 3)
	p.want(t, 3, "a", time.Second)
	p.charge(1, "a", 5*time.Second)
	p.charge(3, "a", 7*time.Second)
	p.run(1, 1, 2, 3)
	p.want(t, 3, "a", 6*time.Second)
	p.want(t, 1, "a", 7*time.Second)
	p.want(t, 2, "a", time.Second+1290*time.Millisecond+12*time.Second)
}

// TestUnnoticedSplit: a split that lasts longer than silence, but ends before memberlist misses a member, still
// counts as a split.
func TestUnnoticedSplit(t *testing.T) {
	p := newParty(1, 2)
	for range silence/epoch + 2 {
		p.charge(1, "a", 10*time.Millisecond)
		p.tick(1, 2) // all packets are lost
	}
	p.charge(1, "a", time.Second)
	p.run(2, 1, 2)
	p.want(t, 2, "a", 0)
	p.charge(1, "a", time.Second)
	p.run(1, 1, 2)
	p.want(t, 2, "a", time.Second)
}

// TestDebtsBeforeTheirOrigin: after a split, a node learns a debt from a second node, before it meets the node
// that made the charge. The total of that node arrives later, and counts once.
func TestDebtsBeforeTheirOrigin(t *testing.T) {
	p := newParty(1, 2, 3)
	p.meet(1, 2)
	p.meet(3)
	p.run(int(2*silence/epoch), 1, 2, 3)
	p.charge(1, "debtor", 10*time.Second)
	p.run(1, 1, 2)
	p.replicas[3].SetMembers(p.now, []Node{2})
	p.replicas[2].SetMembers(p.now, []Node{1, 3})
	p.exchange(2, 3, debt{testKey("debtor"), 9 * time.Second})
	if got, want := p.sinks[3].raised[testKey("debtor")], p.now.Add(9*time.Second); !got.Equal(want) {
		t.Fatalf("the key owes until %v, want %v", got, want)
	}
	p.meet(1, 2, 3)
	p.run(int(again/epoch)+1, 1, 2, 3) // the total is sent again
	p.want(t, 3, "debtor", 0)
}

// TestNewcomersCountOn: a new node learns a debt from one node, and later charges of any node count.
func TestNewcomersCountOn(t *testing.T) {
	p := newParty(1, 2)
	p.exchange(1, 2)
	p.charge(1, "debtor", 10*time.Second)
	p.run(1, 1, 2)
	p.add(3)
	p.meet(1, 2, 3)
	p.exchange(2, 3, debt{testKey("debtor"), 9 * time.Second})
	p.charge(1, "debtor", time.Second)
	p.charge(2, "debtor", 2*time.Second)
	p.run(1, 1, 2, 3)
	p.want(t, 3, "debtor", 3*time.Second)
	p.exchange(1, 3, debt{testKey("other"), time.Second}) // by now, the new node knows the debts of all nodes
	testkit.Same(t, 1, len(p.sinks[3].raised), "debts raised")
}

// TestBudget: if there are more changes than may be sent, the largest are sent first. The budget isn't
// exceeded. Keys that wait, and keys that waited too long, are counted.
func TestBudget(t *testing.T) {
	const perSecond, seconds = 20_000, 10
	p := newParty(1, 2, 3)
	r := p.replicas[1]
	r.budget = perSecond
	before := r.counts.Sent
	for n := range seconds * int(time.Second/epoch) {
		for i := range 500 {
			p.charge(1, fmt.Sprint(n%10, "-", i), 50*time.Millisecond)
		}
		p.charge(1, "heavy", 500*time.Millisecond)
		p.run(1, 1, 2, 3)
	}
	if sent := r.counts.Sent - before; sent > 1.15*perSecond*(seconds+1) {
		t.Errorf("%d bytes/s were sent, want at most %d", sent/seconds, perSecond)
	}
	if r.counts.Waiting == 0 {
		t.Error("keys that weren't sent weren't counted")
	}
	p.want(t, 2, "heavy", seconds*5*time.Second)
	r.budget = 0
	p.now = p.now.Add(idle + time.Second)
	p.run(2, 1)
	p.now = p.now.Add(time.Second)
	p.run(1, 1)
	if k := r.counts; k.Dropped == 0 || k.Waiting > 0 || len(r.tallies) > 0 {
		t.Errorf("%d keys were dropped, %d wait, and %d are kept", k.Dropped, k.Waiting, len(r.tallies))
	}
}

// testBurst is the burst of the tests, in CPU-seconds.
const testBurst = 1.0

func testPolicy() limiter.Policy {
	return limiter.Policy{Mode: limiter.Cap, MaxHold: 1, MaxHeld: 1000, Classes: []limiter.ClassInfo{
		{Name: "slash32", Budget: limiter.Budget{CPUs: 1, Burst: testBurst * time.Second}},
	}}
}

func testKey(id string) limiter.Key { return limiter.Key{Class: "slash32", ID: id} }
