package limitertest

import "container/heap"

// acceptQueue is how many requests wait for a worker before others are turned
// away: Apache's ListenBacklog.
const acceptQueue = 511

// backend has workers, and shares its CPUs evenly among those that compute.
type backend struct {
	*engine
	cpus    float64
	workers int

	computing jobs // by when they are done
	sleeping  int  // workers that wait, for a database say
	queue     []*request
	served    float64 // CPU-seconds that each computing request has got since the start
	version   int
	used      float64            // CPU-seconds
	usedBy    map[string]float64 // by kind of client
	done      func(*request)
}

// jobs is a heap of requests by the service at which they are done.
type jobs []*request

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].doneAt < j[b].doneAt }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(x any)        { *j = append(*j, x.(*request)) }
func (j *jobs) Pop() any {
	old := *j
	last := len(old) - 1
	x := old[last]
	*j = old[:last]
	return x
}

// speed is what each computing request gets, in CPU-seconds per second.
func (b *backend) speed() float64 {
	if len(b.computing) == 0 {
		return 0
	}
	return min(1, b.cpus/float64(len(b.computing)))
}

// pass lets time pass.
func (b *backend) pass(seconds float64) {
	x := b.speed() * seconds
	b.served += x
	b.used += x * float64(len(b.computing))
}

func (b *backend) busy() int { return len(b.computing) + b.sleeping }

// send takes a request in, and tells whether there was room for it.
func (b *backend) send(r *request) bool {
	if b.busy() < b.workers {
		b.begin(r)
		return true
	}
	if len(b.queue) >= acceptQueue {
		return false
	}
	b.queue = append(b.queue, r)
	return true
}

func (b *backend) begin(r *request) {
	if r.sleep > 0 {
		b.sleeping++
		b.after(r.sleep, func() {
			b.sleeping--
			b.compute(r)
		})
		return
	}
	b.compute(r)
}

func (b *backend) compute(r *request) {
	r.doneAt = b.served + r.cpu
	heap.Push(&b.computing, r)
	b.schedule()
}

// schedule has the next one be done when it is.
func (b *backend) schedule() {
	b.version++
	if len(b.computing) == 0 {
		return
	}
	version := b.version
	b.after((b.computing[0].doneAt-b.served)/b.speed(), func() {
		if version == b.version {
			b.finish()
		}
	})
}

func (b *backend) finish() {
	var done []*request
	for len(b.computing) > 0 && b.computing[0].doneAt <= b.served+1e-9 {
		r := heap.Pop(&b.computing).(*request)
		b.usedBy[r.client.Kind] += r.cpu
		done = append(done, r)
	}
	for len(b.queue) > 0 && b.busy() < b.workers {
		r := b.queue[0]
		b.queue = b.queue[1:]
		b.begin(r)
	}
	b.schedule()
	for _, r := range done {
		b.done(r)
	}
}
