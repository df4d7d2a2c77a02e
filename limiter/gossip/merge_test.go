package gossip

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tempomat/limiter"
)

// TestMerge has nodes charge keys, and the messages come at a third party in
// whatever order and as often as they like, directly, by way of others, or not at
// all. What has come is charged once; and once digests were exchanged, all is.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		sinks := map[node]*ledger{}
		replicas := map[node]*replica{}
		ids := []node{1, 2, 3, 4}
		for _, id := range ids {
			sinks[id] = &ledger{debits: map[limiter.Key]time.Duration{}}
			replicas[id] = newReplica(testRules(), id, rapid.Uint64().Draw(t, "seed"), sinks[id])
		}
		for _, id := range ids {
			var others []node
			for _, o := range ids {
				if o != id {
					others = append(others, o)
				}
			}
			replicas[id].setMembers(now, others)
			replicas[id].learned, replicas[id].askAmong = true, nil // nobody knows more
		}
		charged := map[node]map[limiter.Key]time.Duration{}
		all := map[limiter.Key]time.Duration{}
		var wire []outbound // all that was ever sent
		post := func(l []outbound) { wire = append(wire, l...) }
		deliver := func(i int) {
			for _, to := range wire[i].to {
				post(replicas[to].received(now, wire[i].data))
			}
		}
		for range rapid.IntRange(1, 12).Draw(t, "epochs") {
			for range rapid.IntRange(0, 6).Draw(t, "charges") {
				id := rapid.SampledFrom(ids).Draw(t, "node")
				c := limiter.Charge{Key: testKey(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")), Cost: time.Duration(rapid.IntRange(1, 1000).Draw(t, "ms")) * time.Millisecond}
				replicas[id].charge(now, c)
				if charged[id] == nil {
					charged[id] = map[limiter.Key]time.Duration{}
				}
				charged[id][c.Key] += c.Cost
				all[c.Key] += c.Cost
			}
			now = now.Add(100 * time.Millisecond)
			for _, id := range ids {
				post(replicas[id].tick(now))
			}
			for range rapid.IntRange(0, 6).Draw(t, "deliveries") {
				deliver(rapid.IntRange(0, len(wire)-1).Draw(t, "letter"))
			}
			for _, id := range ids {
				for k, got := range sinks[id].debits {
					if most := all[k] - charged[id][k]; got > most {
						t.Fatalf("node %d charged %v to %v, all others together only %v", id, got, k, most)
					}
				}
			}
		}
		for range 30 { // now the network is good again
			from := len(wire)
			now = now.Add(100 * time.Millisecond)
			for _, id := range ids {
				post(replicas[id].tick(now))
			}
			for i := from; i < len(wire) && i < from+1000; i++ {
				deliver(i)
			}
		}
		for _, id := range ids {
			want := map[limiter.Key]time.Duration{}
			for k, x := range all {
				if x -= charged[id][k]; x > 0 {
					want[k] = x
				}
			}
			if diff := cmp.Diff(want, sinks[id].debits); diff != "" {
				t.Fatalf("node %d charged, -want +got:\n%s", id, diff)
			}
		}
	})
}
