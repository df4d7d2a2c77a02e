package gossip

import (
	"container/heap"
	"time"

	"tempomat/limiter"
)

// Bounds of what travels. A limiter does not make longer ones; what is beyond is
// not shared, and counted.
const (
	maxID    = 512     // bytes of a key's ID
	maxClass = 64      // bytes of a class's name
	maxKeys  = 1 << 17 // whose charges wait to be sent
	maxCost  = 24 * time.Hour
)

// total is what was charged to a key, and not committed yet.
type total struct {
	limiter.Key
	cost  time.Duration
	since int64 // when the first of it was, in milliseconds since 1970
}

// tally adds up what is charged here.
type tally struct {
	totals map[limiter.Key]*total
	queue  heaviest // empty between commits
}

func newTally() *tally { return &tally{totals: map[limiter.Key]*total{}} }

// add notes a charge; false if there is no room for another key, or if it could
// not travel.
func (t *tally) add(now int64, k limiter.Key, cost time.Duration) bool {
	if x := t.totals[k]; x != nil {
		x.cost = min(x.cost+cost, maxCost)
		return true
	}
	if len(t.totals) >= maxKeys || len(k.ID) > maxID || len(k.Class) > maxClass {
		return false
	}
	t.totals[k] = &total{Key: k, cost: min(cost, maxCost), since: now}
	return true
}

// forget drops what was not sent for so long that nobody would charge it any
// more, and returns how many keys that were.
func (t *tally) forget(horizon int64) (n int) {
	for k, x := range t.totals {
		if x.since < horizon {
			delete(t.totals, k)
			n++
		}
	}
	return n
}

// rank readies the totals to be taken by weight.
func (t *tally) rank() {
	t.queue = t.queue[:0]
	for _, x := range t.totals {
		t.queue = append(t.queue, x)
	}
	heap.Init(&t.queue)
}

// next returns the heaviest ones that were not returned yet, at most n.
func (t *tally) next(into []*total, n int) []*total {
	for into = into[:0]; len(into) < n && len(t.queue) > 0; {
		into = append(into, heap.Pop(&t.queue).(*total))
	}
	return into
}

// back takes what next returned and was not sent after all.
func (t *tally) back(x *total) { heap.Push(&t.queue, x) }

// sent takes out what was sent.
func (t *tally) sent(x *total) { delete(t.totals, x.Key) }

// heaviest is a heap by cost. Equal ones go by name, so that the same charges
// make the same parcels.
type heaviest []*total

func (h heaviest) Len() int { return len(h) }
func (h heaviest) Less(i, j int) bool {
	a, b := h[i], h[j]
	if a.cost != b.cost {
		return a.cost > b.cost
	}
	return a.ID < b.ID || a.ID == b.ID && a.Class < b.Class
}
func (h heaviest) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heaviest) Push(x any)   { *h = append(*h, x.(*total)) }
func (h *heaviest) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return x
}
