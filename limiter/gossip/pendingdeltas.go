package gossip

import (
	"cmp"
	"math/bits"
	"slices"
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
	key   limiter.Key
	cost  time.Duration
	since int64 // when the first of it was, in milliseconds since 1970
}

// pendingDeltas adds up what is charged here.
type pendingDeltas struct {
	totals []total // in no order, side by side as all of them are looked at in each epoch
	index  map[limiter.Key]int
	chosen []int
}

func newPendingDeltas() *pendingDeltas { return &pendingDeltas{index: map[limiter.Key]int{}} }

// add notes a charge; false if there is no room for another key, or if it could
// not travel.
func (t *pendingDeltas) add(now int64, k limiter.Key, cost time.Duration) bool {
	if i, ok := t.index[k]; ok {
		t.totals[i].cost = min(t.totals[i].cost+cost, maxCost)
		return true
	}
	if len(t.totals) >= maxKeys || len(k.ID) > maxID || len(k.Class) > maxClass {
		return false
	}
	t.index[k] = len(t.totals)
	t.totals = append(t.totals, total{k, min(cost, maxCost), now})
	return true
}

// of returns what waits of a key.
func (t *pendingDeltas) of(k limiter.Key) time.Duration {
	if i, ok := t.index[k]; ok {
		return t.totals[i].cost
	}
	return 0
}

// remove forgets a key, if it is there.
func (t *pendingDeltas) remove(k limiter.Key) {
	i, ok := t.index[k]
	if !ok {
		return
	}
	last := len(t.totals) - 1
	t.totals[i] = t.totals[last]
	t.index[t.totals[i].key] = i
	t.totals[last] = total{}
	t.totals = t.totals[:last]
	delete(t.index, k)
}

// forget drops what was not sent for so long that nobody would charge it any
// more, and returns how many keys that were.
func (t *pendingDeltas) forget(horizon int64) (n int) {
	for _, x := range slices.Backward(t.totals) { // remove moves the last one, which has been looked at
		if x.since < horizon {
			t.remove(x.key)
			n++
		}
	}
	return n
}

// heaviest appends about the n heaviest totals, the heaviest first. It counts how
// many there are of each weight to an eighth, and so need not sort them all.
func (t *pendingDeltas) heaviest(list []amount, n int) []amount {
	var count [8 * 64]int
	for i := range t.totals {
		count[weight(t.totals[i].cost)]++
	}
	least, room := len(count), n
	for least > 0 && (room > 0 || least == len(count)) {
		least--
		room -= count[least]
	}
	t.chosen = t.chosen[:0]
	for i := range t.totals {
		if weight(t.totals[i].cost) >= least {
			t.chosen = append(t.chosen, i)
		}
	}
	slices.SortFunc(t.chosen, func(i, j int) int {
		a, b := &t.totals[i], &t.totals[j]
		return cmp.Or(cmp.Compare(b.cost, a.cost), cmp.Compare(a.key.ID, b.key.ID), cmp.Compare(a.key.Class, b.key.Class))
	})
	for _, i := range t.chosen[:min(n, len(t.chosen))] {
		list = append(list, amount{t.totals[i].key, t.totals[i].cost})
	}
	return list
}

// weight is the logarithm of a cost above zero, in eighths.
func weight(cost time.Duration) int {
	x := uint64(max(1, cost))
	n := bits.Len64(x)
	return 8*(n-1) + int(x<<(64-n)>>60&7)
}
