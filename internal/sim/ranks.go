package sim

import (
	"container/heap"
	"math"
)

// steps there are down from a worker's own priority, and what those that have gone so far
// weigh: Linux' weights of the nice values 0, 5 and 10, and of SCHED_IDLE.
const steps = 3

func weights() [steps + 1]float64 { return [...]float64{1024, 335, 110, 3} }

// rank is the requests that compute and have stepped down equally far.
type rank struct {
	jobs
	speed  float64 // what each of them gets, in CPU-seconds per second
	served float64 // and has got since the start
}

// jobs is a heap of requests by the service at which they are done.
type jobs []*request

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].doneAt < j[b].doneAt }
func (j jobs) Swap(a, b int) {
	j[a], j[b] = j[b], j[a]
	j[a].index, j[b].index = a, b
}

func (j *jobs) Push(x any) {
	r := x.(*request)
	r.index = len(*j)
	*j = append(*j, r)
}

func (j *jobs) Pop() any {
	old := *j
	last := len(old) - 1
	x := old[last]
	*j = old[:last]
	return x
}

// computes is how many do.
func (b *backend) computes() (n int) {
	for i := range b.ranks {
		n += len(b.ranks[i].jobs)
	}
	return n
}

// join has a request compute that needs so much more, in CPU-seconds.
func (b *backend) join(r *request, step int, needs float64) {
	k := &b.ranks[step]
	r.step, r.doneAt = step, k.served+needs
	heap.Push(&k.jobs, r)
	b.share()
}

// had is what a request that computes has got so far, in CPU-seconds.
func (b *backend) had(r *request) float64 { return r.cpu - (r.doneAt - b.ranks[r.step].served) }

// lower has a request that computes step down.
func (b *backend) lower(r *request, step int) {
	if r.stage != computing || step <= r.step {
		return
	}
	k, needs := &b.ranks[r.step], r.cpu-b.had(r)
	heap.Remove(&k.jobs, r.index)
	b.join(r, step, needs)
	b.schedule()
}

// share gives each its part of the CPUs by its weight, but nobody more than one CPU.
func (b *backend) share() {
	left, weight := b.cpus, b.beside
	for i, w := range weights() {
		weight += w * float64(len(b.ranks[i].jobs))
	}
	for i, w := range weights() {
		k := &b.ranks[i]
		k.speed = 0
		if n := float64(len(k.jobs)); n > 0 {
			k.speed = min(1, left*w/weight)
			left -= n * k.speed
			weight -= n * w
		}
	}
}

// pass lets time pass.
func (b *backend) pass(seconds float64) {
	own := b.used.own
	if b.lacksCPU() {
		b.used.short += seconds
	}
	for i := range b.ranks {
		k := &b.ranks[i]
		k.served += k.speed * seconds
		b.used.own += k.speed * seconds * float64(len(k.jobs))
		b.used.lacked += (1 - k.speed) * seconds * float64(len(k.jobs))
	}
	if b.beside >= ordinaryWeight {
		b.used.others += b.cpus*seconds - (b.used.own - own)
	}
}

// isShort tells whether a request waits for a worker, or for a CPU.
func (b *backend) isShort() bool { return len(b.queue) > 0 || b.lacksCPU() }

func (b *backend) lacksCPU() bool {
	for i := range b.ranks {
		if k := &b.ranks[i]; len(k.jobs) > 0 && k.speed < nearly {
			return true
		}
	}
	return false
}

// nearly is the part of a CPU that who computes has at least if none is short: what is niced takes some.
const nearly = 0.95

// untilDone is for how many seconds the next one computes.
func (b *backend) untilDone() float64 {
	next := math.Inf(1)
	for i := range b.ranks {
		if k := &b.ranks[i]; len(k.jobs) > 0 {
			next = min(next, (k.jobs[0].doneAt-k.served)/k.speed)
		}
	}
	return next
}

// done takes out those that are done.
func (b *backend) done() (all []*request) {
	for i := range b.ranks {
		k := &b.ranks[i]
		for len(k.jobs) > 0 && k.jobs[0].doneAt <= k.served+1e-9 {
			all = append(all, heap.Pop(&k.jobs).(*request))
		}
	}
	b.share()
	return all
}
