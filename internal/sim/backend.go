package sim

import (
	"container/heap"
	"math"
)

// acceptQueue is how many requests wait for a worker before others are turned
// away: Apache's ListenBacklog.
const acceptQueue = 511

// anyWorkers is how many workers a backend has that needs none to wait: an
// event-driven one.
const anyWorkers = 1 << 20

// backend has workers, and shares its CPUs among those that compute: evenly, or by their
// weights where some have stepped down. A worker has one request from its first byte to the last one of the answer: it
// receives the body, waits for a database, computes, and sends the answer.
type backend struct {
	*engine
	cpus    float64
	workers int // that have been started
	most    int // of them
	forks   forks
	fork    int     // how many it starts next
	pressed float64 // when somebody waited for one last
	beside  float64 // weight of what else computes on the machine
	taker   taker

	ranks   [steps + 1]rank // those that compute, by how far they have stepped down
	holding int             // workers that have a request and compute nothing
	queue   []*request
	version int
	used    used
	usedBy  map[string]float64 // by kind of client
}

// used is what of the CPUs was, in seconds.
type used struct {
	own    float64 // CPU-seconds
	others float64 // the same, by what else is on the machine and is not niced
	short  float64 // in which a request that computed waited for a CPU
	lacked float64 // for which all together did
}

// taker is who takes the answers.
type taker interface {
	// taking is for how many seconds an answer holds its worker from when it is
	// computed.
	taking(r *request) float64
	// begun tells that an answer begins that holds its worker.
	begun(r *request)
	// done tells that an answer is complete, or broken off, and its worker free.
	done(r *request)
}

// stage is where a request is at the backend.
type stage uint8

const (
	outside   stage = iota // or in the accept queue
	receiving              // its body
	sleeping
	computing
	sending // its answer
)

func (b *backend) busy() int { return b.computes() + b.holding }

// send takes a request in, and tells whether there was room for it.
func (b *backend) send(r *request) bool {
	b.press()
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
	if r.broken {
		b.end(r)
		return
	}
	b.hold(r, receiving, r.uploading(b.now), func() {
		if r.broken {
			b.end(r)
			return
		}
		b.hold(r, sleeping, r.page.Sleep, func() { b.compute(r) })
	})
}

func (b *backend) compute(r *request) {
	r.stage, r.since = computing, b.now
	b.join(r, 0, r.cpu)
	b.schedule()
}

// schedule has the next one be done when it is.
func (b *backend) schedule() {
	b.version++
	if b.computes() == 0 {
		return
	}
	version := b.version
	b.after(b.untilDone(), func() {
		if version == b.version {
			b.finish()
		}
	})
}

func (b *backend) finish() {
	computed := b.done()
	for _, r := range computed {
		r.stage, r.had, r.queued = outside, r.cpu, b.now-r.since-r.cpu
		b.usedBy[r.client.Kind] += r.cpu
		if taking := b.taker.taking(r); taking > 0 {
			b.hold(r, sending, taking, func() { b.end(r) })
		}
	}
	b.refill()
	b.schedule()
	for _, r := range computed {
		if r.stage == sending {
			b.taker.begun(r)
		} else {
			b.taker.done(r)
		}
	}
}

// refill gives free workers to who waits for them.
func (b *backend) refill() {
	for len(b.queue) > 0 && b.busy() < b.workers {
		r := b.queue[0]
		b.queue = b.queue[1:]
		b.begin(r)
	}
}

// hold has a request keep its worker for some seconds without computing, or
// until it is released.
func (b *backend) hold(r *request, s stage, seconds float64, then func()) {
	if seconds <= 0 {
		then()
		return
	}
	b.holding++
	r.stage, r.then = s, then
	r.holds++
	hold := r.holds
	b.after(seconds, func() {
		if r.holds == hold {
			b.release(r)
		}
	})
}

// release ends what a request holds its worker for.
func (b *backend) release(r *request) {
	r.holds++ // the timer has nothing to end any more
	r.stage = outside
	b.holding--
	r.then()
}

// end is that of a request which held its worker without computing at last.
func (b *backend) end(r *request) {
	b.refill()
	b.taker.done(r)
}

// hangUp closes the connection of a request. A backend notices that only as it
// reads or writes: what sleeps or computes runs on.
func (b *backend) hangUp(r *request) {
	switch {
	case r.stage == receiving, r.stage == outside && r.uploading(b.now) > 0:
		r.broken = true
	case r.stage == sending && r.page.Stream > 0:
		hold := r.holds
		b.after(eventEach, func() { // it notices as it sends the next event
			if r.holds == hold {
				b.release(r)
			}
		})
		return
	case r.stage != sending:
		return
	}
	if r.stage != outside {
		b.release(r)
	}
}

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

// isShort reports whether a request waits for a worker, or for a CPU.
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

// forks is how a backend starts the processes that its workers are, up to as many as it may have.
type forks uint8

const (
	// allAtOnce: all are there from the start.
	allAtOnce forks = iota
	// prefork is Apache's, as Debian configures it: five at first, and more each second while fewer than
	// five are idle, each time twice as many.
	prefork
	// dynamic is php-fpm's: two at first, and one more each second in which none is idle.
	dynamic
	// onDemand is php-fpm's other one: one more for each request that finds none idle.
	onDemand
)

// Figures of Debian's configuration.
const (
	forkEach               = 1.0 // seconds
	preforkAtFirst         = 5
	spareLeast, spareMost  = 5, 10 // idle processes of Apache's
	forkMost               = 32
	dynamicAtFirst         = 2
	dynamicLeast, idleMost = 1, 3 // idle processes of php-fpm's
	idleFor                = 10.0 // seconds, until one that was started on demand ends
)

// start has the first processes run.
func (b *backend) start(how forks) {
	b.forks, b.most, b.fork, b.pressed = how, b.workers, 1, math.Inf(-1)
	switch how {
	case prefork:
		b.workers = min(b.most, preforkAtFirst)
	case dynamic:
		b.workers = min(b.most, dynamicAtFirst)
	case onDemand:
		b.workers = 0
	case allAtOnce:
		return
	}
	b.every(forkEach, b.maintain)
}

// maintain starts processes and ends idle ones, once a second.
func (b *backend) maintain() {
	least, most, forkMost := spareLeast, spareMost, forkMost
	switch b.forks {
	case dynamic:
		least, most, forkMost = dynamicLeast, idleMost, dynamicLeast
	case onDemand:
		least, most = 0, 0
		if b.now-b.pressed < idleFor {
			return
		}
	case allAtOnce, prefork:
	}
	switch idle := b.workers - b.busy(); {
	case idle < least && b.workers < b.most:
		b.workers = min(b.most, b.workers+b.fork)
		b.fork = min(forkMost, 2*b.fork)
		b.refill()
	case idle > most:
		b.workers--
		b.fork = 1
	default:
		b.fork = 1
	}
}

// press starts a process on demand for a request that comes.
func (b *backend) press() {
	if b.forks != onDemand || b.busy() < b.workers {
		return
	}
	b.pressed = b.now
	b.workers = min(b.most, b.workers+1)
}

// other is what else computes on a machine, on each of its CPUs.
type other struct {
	weight       float64 // 1024: as one of the backend's requests
	every, lasts float64 // seconds; 0: all the time
}

// Weights of other programs: of an ordinary one, and of one at nice 19.
const (
	ordinaryWeight = 1024
	nicedWeight    = 15
)

// begin has it compute.
func (o other) begin(b *backend) {
	if o.weight == 0 {
		return
	}
	set := func(weight float64) {
		b.beside = weight * b.cpus
		b.share()
		b.schedule()
	}
	if o.every == 0 {
		set(o.weight)
		return
	}
	b.every(o.every, func() {
		set(o.weight)
		b.after(o.lasts, func() { set(0) })
	})
}
