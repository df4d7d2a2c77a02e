package telemetry

import (
	"sync"
	"testing"
)

// TestNearbyKeepsToTheShards: however many ask at once, no shard is beyond those that there are.
func TestNearbyKeepsToTheShards(t *testing.T) {
	n := NewNearby()
	var all sync.WaitGroup
	for range 8 * Shards {
		all.Go(func() {
			for range 100 {
				if s := n.Shard(); s >= Shards {
					t.Errorf("shard %d of %d", s, Shards)
				}
			}
		})
	}
	all.Wait()
}
