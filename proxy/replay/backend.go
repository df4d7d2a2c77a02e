package replay

import "container/heap"

// acceptQueue is how many requests wait for a worker before others are turned away:
// Apache's ListenBacklog.
const acceptQueue = 511

// backend has workers, and shares its CPUs evenly among those at work.
type backend struct {
	cpus    float64
	workers int
	working jobs    // by when they are done
	queue   []*job  // for a worker
	served  float64 // CPU-seconds that each one at work has got since they began
	used    float64 // CPU-seconds in all
}

// jobs is a heap of jobs by the service at which they are done.
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
	if n := len(b.working); n > 0 {
		x := b.speed() * seconds
		b.served += x
		b.used += x * float64(n)
	}
}

// left is how many seconds it takes until the next one is done; negative: nobody is at
// work.
func (b *backend) left() float64 {
	if len(b.working) == 0 {
		return -1
	}
	return max(0, b.working[0].doneAt-b.served) / b.speed()
}

// send takes a request in, and tells whether there was room for it.
func (b *backend) send(j *job) bool {
	if len(b.working) >= b.workers {
		if len(b.queue) >= acceptQueue {
			return false
		}
		j.queued = true
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
	j.queued, j.doneAt = false, b.served+j.cpu
	heap.Push(&b.working, j)
}

// done takes out the next one that is done.
func (b *backend) done() *job {
	j := heap.Pop(&b.working).(*job)
	if len(b.queue) > 0 {
		next := b.queue[0]
		copy(b.queue, b.queue[1:])
		b.queue = b.queue[:len(b.queue)-1]
		b.begin(next)
	}
	return j
}
