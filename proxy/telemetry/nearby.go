package telemetry

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Shards is over how many copies of the counters requests are spread. Requests that end at
// the same time on different CPUs seldom share one.
const Shards = 16

// Nearby tells which shard is this CPU's. Counters that another CPU has just written have to
// come from its cache, which takes longer than to count; so each CPU has a shard that it
// nearly always finds in its own. Its Shard may be called concurrently.
type Nearby struct {
	numbers sync.Pool // of *uint8; the pool keeps an item for each CPU
	given   atomic.Uint32
}

// NewNearby makes a Nearby, of as many shards as there are CPUs.
func NewNearby() *Nearby {
	n := new(Nearby)
	most := uint32(min(Shards, runtime.GOMAXPROCS(0))) //nolint:gosec // at most Shards
	n.numbers.New = func() any {
		shard := uint8(n.given.Add(1) % most) //nolint:gosec // below Shards
		return &shard
	}
	return n
}

// Shard is a number below Shards. It may be another one the next time.
func (n *Nearby) Shard() uint8 {
	number := n.numbers.Get().(*uint8) //nolint:forcetypeassert // there is nothing else in it
	defer n.numbers.Put(number)
	return *number
}
