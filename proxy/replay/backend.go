package replay

import (
	"container/heap"
	"math"
)

// acceptQueue is how many requests wait for a worker before others are turned away:
// Apache's ListenBacklog.
const acceptQueue = 511

// backend has workers, and shares its CPUs evenly among those at work.
type backend struct {
	cpus    float64
	workers int
	working jobs    // by when they are done
	holding jobs    // that have computed, and hold their worker still: by when they let go of it
	queue   []*job  // for a worker
	passed  float64 // seconds since the beginning
	served  float64 // CPU-seconds that each one at work has got since they began
	used    float64 // CPU-seconds in all
}

// jobs is a heap of jobs by when they are done.
type jobs []*job

func (h jobs) Len() int           { return len(h) }
func (h jobs) Less(i, j int) bool { return h[i].doneAt < h[j].doneAt }
func (h jobs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *jobs) Push(x any)        { *h = append(*h, x.(*job)) }
func (h *jobs) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// speed is what each one at work gets, in CPU-seconds per second.
func (b *backend) speed() float64 { return min(1, b.cpus/float64(len(b.working))) }

// pass lets so many seconds pass, in which nobody is done.
func (b *backend) pass(seconds float64) {
	b.passed += seconds
	if n := len(b.working); n > 0 {
		x := b.speed() * seconds
		b.served += x
		b.used += x * float64(n)
	}
}

// left is how many seconds it takes until the next one has computed, or lets go of its
// worker; infinite: nobody is there.
func (b *backend) left() float64 {
	work, hold := b.nexts()
	return min(work, hold)
}

// nexts are in how many seconds the next one has computed, and the next one lets go.
func (b *backend) nexts() (work, hold float64) {
	work, hold = math.Inf(1), math.Inf(1)
	if len(b.working) > 0 {
		work = max(0, b.working[0].doneAt-b.served) / b.speed()
	}
	if len(b.holding) > 0 {
		hold = max(0, b.holding[0].doneAt-b.passed)
	}
	return work, hold
}

// send takes a request in, and tells whether there was room for it.
func (b *backend) send(j *job) bool {
	if b.taken() >= b.workers {
		if len(b.queue) >= acceptQueue {
			return false
		}
		b.queue = append(b.queue, j)
		return true
	}
	b.begin(j)
	return true
}

func (b *backend) begin(j *job) {
	if len(b.working) == 0 {
		b.served = 0 // so that it stays exact however long the log is
	}
	j.doneAt = b.served + j.cpu
	heap.Push(&b.working, j)
}

// done takes out the next one that is done; nil: it holds its worker still.
func (b *backend) done() *job {
	var j *job
	if work, hold := b.nexts(); hold < work {
		j = heap.Pop(&b.holding).(*job)
	} else if j = heap.Pop(&b.working).(*job); j.idle > 0 {
		j.doneAt = b.passed + j.idle
		heap.Push(&b.holding, j)
		return nil
	}
	if len(b.queue) > 0 {
		next := b.queue[0]
		copy(b.queue, b.queue[1:])
		b.queue = b.queue[:len(b.queue)-1]
		b.begin(next)
	}
	return j
}

// taken is how many workers are.
func (b *backend) taken() int { return len(b.working) + len(b.holding) }
