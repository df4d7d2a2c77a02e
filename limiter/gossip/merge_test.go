package gossip

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// party is a set of replicas that know each other and receive what the test delivers.
type party struct {
	now      time.Time
	replicas map[Node]*Replica
	sinks    map[Node]*ledger
}

func newParty(nodes ...Node) *party {
	p := &party{time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), map[Node]*Replica{}, map[Node]*ledger{}}
	for _, id := range nodes {
		p.add(id)
	}
	p.meet(nodes...)
	p.run(2, nodes...) // each node receives packets from all others
	return p
}

// add makes a node that knows no other node.
func (p *party) add(id Node) {
	p.sinks[id] = newLedger()
	p.replicas[id] = NewReplica(id, p.sinks[id])
}

// sent is a packet that hasn't arrived yet.
type sent struct {
	from Node
	data []byte
}

// tick lets an epoch pass for some of the nodes, and returns what they send.
func (p *party) tick(nodes ...Node) (packets []sent) {
	p.now = p.now.Add(epoch)
	for _, id := range nodes {
		for _, data := range p.replicas[id].Tick(p.now) {
			packets = append(packets, sent{id, data})
		}
	}
	return packets
}

func (p *party) deliver(s sent) {
	for _, to := range p.replicas[s.from].live {
		p.replicas[to].Received(p.now, s.data)
	}
}

func (p *party) charge(id Node, key string, cost time.Duration) {
	p.replicas[id].Charge(p.now, limiter.Charge{Key: testKey(key), Cost: cost})
}

// TestMerge makes nodes charge keys. The packets reach each of the other nodes in any order, any number of
// times, or not at all. No cost is charged twice, and once the network works again, every cost is charged.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []Node{1, 2, 3, 4}
		p := newParty(ids...)
		charged := map[Node]map[limiter.Key]time.Duration{1: {}, 2: {}, 3: {}, 4: {}}
		all := map[limiter.Key]time.Duration{}
		var wire []sent // all packets that were ever sent
		for range rapid.IntRange(1, 12).Draw(t, "epochs") {
			for range rapid.IntRange(0, 6).Draw(t, "charges") {
				id, key := rapid.SampledFrom(ids).Draw(t, "node"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
				cost := time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond
				p.charge(id, key, cost)
				charged[id][testKey(key)] += cost
				all[testKey(key)] += cost
			}
			wire = append(wire, p.tick(ids...)...)
			for range rapid.IntRange(0, 6).Draw(t, "deliveries") {
				s := rapid.SampledFrom(append(wire, sent{1, nil})).Draw(t, "packet")
				p.replicas[rapid.SampledFrom(ids).Draw(t, "to")].Received(p.now, s.data)
			}
			for _, id := range ids {
				for k, got := range p.sinks[id].debits {
					if most := all[k] - charged[id][k]; got > most {
						t.Fatalf("node %d charged %v to %v, but all others together only %v", id, got, k, most)
					}
				}
			}
		}
		for range 40 { // the last totals are sent again 32 epochs later
			for _, s := range p.tick(ids...) {
				p.deliver(s)
			}
		}
		for _, id := range ids {
			want := map[limiter.Key]time.Duration{}
			for k, x := range all {
				if x -= charged[id][k]; x > 0 {
					want[k] = x
				}
			}
			testkit.Same(t, want, p.sinks[id].debits, "node %d charged", id)
		}
	})
}

// TestLostPacketsHeal: the next total of a key makes up for a lost packet. If there is no next total, the last
// one is sent again.
func TestLostPacketsHeal(t *testing.T) {
	for _, c := range []struct {
		name  string
		after int // epochs in which all packets are lost
		again bool
		heals int // the most epochs until the charges are complete
	}{
		{"the key is charged again", 1, true, 1},
		{"the key isn't charged again", 1, false, int(again / epoch)},
		{"the key isn't charged again, and the network fails for three seconds", 30, false, 4},
	} {
		p := newParty(1, 2)
		p.charge(1, "a", time.Second)
		for range c.after {
			p.tick(1, 2)
		}
		want := time.Second
		if c.again {
			p.charge(1, "a", 10*time.Millisecond)
			want += 10 * time.Millisecond
		}
		n := 0
		for ; n < 100 && p.sinks[2].debits[testKey("a")] != want; n++ {
			for _, s := range p.tick(1, 2) {
				p.deliver(s)
			}
		}
		t.Logf("%s: healed after %d epochs", c.name, n)
		if n > c.heals {
			t.Errorf("%s: %v were charged after %d epochs, want %v after %d", c.name, p.sinks[2].debits[testKey("a")], n, want, c.heals)
		}
	}
}

// TestSeries checks how the number of a series changes the meaning of a total, even for a key that is forgotten
// and charged again.
func TestSeries(t *testing.T) {
	r := NewReplica(1, nil)
	s := newLedger()
	r.sink = s
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	r.SetMembers(now, []Node{2})
	for _, c := range []struct {
		what    string
		key     string
		count   count
		charged time.Duration // the key's total charges
	}{
		{"the series began before the nodes met", "old", count{10, 7e6}, 0},
		{"the series continues", "old", count{10, 8e6}, time.Second},
		{"an old packet", "old", count{10, 7.5e6}, time.Second},
		{"the series began after the nodes met", "new", count{11, 1e6}, time.Second},
		{"the same packet again", "new", count{11, 1e6}, time.Second},
		{"the key was forgotten and charged again", "new", count{15, 1e6}, 2 * time.Second},
		{"a packet of the earlier series", "new", count{11, 9e6}, 2 * time.Second},
		{"a very large total is limited", "huge", count{16, maxNumber}, maxCost},
	} {
		r.Received(now, packet(2, 10, c.key, c.count))
		testkit.Same(t, c.charged, s.debits[testKey(c.key)], "%s: charged", c.what)
	}
	r.Received(now, packet(9, 0, "stranger", count{1, 1e6}))
	if s.debits[testKey("stranger")] != 0 || r.counts.Strangers != 1 {
		t.Errorf("a message from an unknown node was accepted: %+v", r.counts)
	}
	r.Tick(now)
	now = now.Add(idle + silence/2)
	r.Received(now, packet(2, 20, "other", count{20, 1}))
	r.sweep(now)
	if len(r.tallies) != 1 || r.counted != 1 {
		t.Errorf("%d keys and %d totals of peers are kept", len(r.tallies), r.counted)
	}
	r.Received(now, packet(2, 20, "new", count{15, 2e6}))
	testkit.Same(t, 2*time.Second, s.debits[testKey("new")], "charged for a forgotten series")
}

// TestMemoryIsBounded: the number of a node's own keys and of those that a peer invents is limited, and there
// is soon room again.
func TestMemoryIsBounded(t *testing.T) {
	p := newParty(1, 2, 3)
	r := p.replicas[1]
	for i := range maxKeys + 1000 {
		r.Received(p.now, packet(2, 0, fmt.Sprint(i), count{uint64(i + 1), 1}))
	}
	p.charge(1, "own", time.Second)
	if len(r.tallies) != maxKeys || r.counts.Dropped != 1001 {
		t.Errorf("%d keys are kept, %d dropped", len(r.tallies), r.counts.Dropped)
	}
	for range idle/time.Second + 2 {
		p.now = p.now.Add(time.Second)
		r.Tick(p.now)
	}
	if p.charge(1, "own", time.Second); len(r.tallies) != 1 || r.counts.Dropped != 1001 {
		t.Errorf("some time later, %d keys are kept, %d dropped", len(r.tallies), r.counts.Dropped)
	}
}

// TestNamesAreBounded: a key that is too long for a message isn't shared, but is counted as dropped.
func TestNamesAreBounded(t *testing.T) {
	p := newParty(1, 2)
	p.charge(1, string(make([]byte, maxID+1)), time.Second)
	if r := p.replicas[1]; len(r.tallies) != 0 || r.counts.Dropped != 1 {
		t.Errorf("%+v", r.counts)
	}
}
