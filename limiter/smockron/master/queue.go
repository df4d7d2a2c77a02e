package master

import (
	"sync"

	"tempomat/limiter/smockron"
)

// queue is where accounting waits for the master: bounded, and when it is full the
// oldest goes, as it matters least by then.
type queue struct {
	ready chan struct{} // receives once after something came into the empty queue

	mu      sync.Mutex // guards the following
	ring    []smockron.Accounting
	first   int
	n       int
	dropped uint64
}

func newQueue(size int) *queue {
	return &queue{ready: make(chan struct{}, 1), ring: make([]smockron.Accounting, size)}
}

func (q *queue) push(a smockron.Accounting) {
	q.mu.Lock()
	if q.n == len(q.ring) {
		q.first = q.at(1)
		q.n--
		q.dropped++
	}
	q.ring[q.at(q.n)] = a
	q.n++
	begun := q.n == 1
	q.mu.Unlock()
	if begun {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
}

// take moves some into batch, and returns how many and how many are left.
func (q *queue) take(batch []smockron.Accounting) (taken, left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for taken < len(batch) && q.n > 0 {
		batch[taken] = q.ring[q.first]
		q.ring[q.first] = smockron.Accounting{}
		q.first = q.at(1)
		q.n--
		taken++
	}
	return taken, q.n
}

// at is the place i beyond the first.
func (q *queue) at(i int) int {
	if i += q.first; i >= len(q.ring) {
		i -= len(q.ring)
	}
	return i
}

// lost counts those that were dropped.
func (q *queue) lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}
