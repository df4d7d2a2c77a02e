package sim

import (
	"container/heap"
	"math"
)

// acceptQueue is how many requests can wait for a worker before others are rejected, as with Apache's
// ListenBacklog.
const acceptQueue = 511

// anyWorkers is the number of workers of a backend in which no request has to wait for a worker, such as an
// event-driven server.
const anyWorkers = 1 << 20

// backend has workers, and divides its CPUs among the workers that compute: evenly, or by their weights if
// some have reduced their priority. A worker handles one request from its first byte to the last byte of the
// answer: it receives the body, waits for a database, computes, and sends the answer.
type backend struct {
	*engine
	cpus    float64
	workers int // workers that have been started
	most    int // the largest number of workers
	forks   forks
	fork    int     // how many workers the backend starts next
	pressed float64 // when a request last waited for a worker
	beside  float64 // the weight of other programs that compute on the machine
	taker   taker

	ranks   [steps + 1]rank // the computing requests, by how far their priority has been reduced
	holding int             // workers that have a request and don't compute
	queue   []*request
	version int
	used    used
	usedBy  map[string]float64 // CPU-seconds, by kind of client
}

// used is the CPU time that was used, or that requests lacked.
type used struct {
	own    float64 // CPU-seconds
	others float64 // CPU-seconds used by other programs that aren't niced
	short  float64 // seconds in which a computing request waited for a CPU
	lacked float64 // total seconds for which requests waited for a CPU
}

// taker receives the answers.
type taker interface {
	// taking returns how many seconds an answer holds its worker after its computation.
	taking(r *request) float64
	// begun is called when an answer that holds its worker begins.
	begun(r *request)
	// done is called when an answer is complete or was aborted, which frees its worker.
	done(r *request)
}

// stage is the stage of a request at the backend.
type stage uint8

const (
	outside   stage = iota // not at the backend, or in the accept queue
	receiving              // receiving its body
	sleeping
	computing
	sending // sending its answer
)

func (b *backend) busy() int { return b.computes() + b.holding }

// send passes a request to the backend. It returns false if there is no room for the request.
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

// schedule schedules the next end of a computation.
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

// refill gives free workers to waiting requests.
func (b *backend) refill() {
	for len(b.queue) > 0 && b.busy() < b.workers {
		r := b.queue[0]
		b.queue = b.queue[1:]
		b.begin(r)
	}
}

// hold makes a request keep its worker for some seconds without computing, or until it is released. After
// that, hold calls then.
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

// release ends a hold.
func (b *backend) release(r *request) {
	r.holds++ // the timer then has no effect
	r.stage = outside
	b.holding--
	r.then()
}

// end ends a request that last held its worker without computing.
func (b *backend) end(r *request) {
	b.refill()
	b.taker.done(r)
}

// hangUp closes the connection of a request. A backend notices the closed connection only when it reads or
// writes, so a request that sleeps or computes continues.
func (b *backend) hangUp(r *request) {
	switch {
	case r.stage == receiving, r.stage == outside && r.uploading(b.now) > 0:
		r.broken = true
	case r.stage == sending && r.page.Stream > 0:
		hold := r.holds
		b.after(eventEach, func() { // the backend notices when it sends the next event
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

// steps is the number of steps by which a worker can reduce its priority. weights returns the weight of a
// worker after each number of steps: Linux's weights for the nice values 0, 5 and 10, and for SCHED_IDLE.
const steps = 3

func weights() [steps + 1]float64 { return [...]float64{1024, 335, 110, 3} }

// rank holds the computing requests whose priority has been reduced by the same number of steps.
type rank struct {
	jobs
	speed  float64 // the service that each request gets, in CPU-seconds per second
	served float64 // the service that each request would have had since the start, in CPU-seconds
}

// jobs is a heap of requests, ordered by the value that served will have when they are finished.
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

// computes returns how many requests compute.
func (b *backend) computes() (n int) {
	for i := range b.ranks {
		n += len(b.ranks[i].jobs)
	}
	return n
}

// join starts the computation of a request, which still needs the given number of CPU-seconds.
func (b *backend) join(r *request, step int, needs float64) {
	k := &b.ranks[step]
	r.step, r.doneAt = step, k.served+needs
	heap.Push(&k.jobs, r)
	b.share()
}

// had returns how much service a computing request has had so far, in CPU-seconds.
func (b *backend) had(r *request) float64 { return r.cpu - (r.doneAt - b.ranks[r.step].served) }

// lower reduces the priority of a computing request.
func (b *backend) lower(r *request, step int) {
	if r.stage != computing || step <= r.step {
		return
	}
	k, needs := &b.ranks[r.step], r.cpu-b.had(r)
	heap.Remove(&k.jobs, r.index)
	b.join(r, step, needs)
	b.schedule()
}

// share gives each request its part of the CPUs according to its weight, but at most one CPU.
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

// pass advances the time by some seconds.
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

// isShort reports whether any request waits for a worker or for a CPU.
func (b *backend) isShort() bool { return len(b.queue) > 0 || b.lacksCPU() }

func (b *backend) lacksCPU() bool {
	for i := range b.ranks {
		if k := &b.ranks[i]; len(k.jobs) > 0 && k.speed < nearly {
			return true
		}
	}
	return false
}

// nearly is the smallest fraction of a CPU that each computing request gets while CPUs aren't short. Niced
// programs use the rest.
const nearly = 0.95

// untilDone returns how many seconds pass until the next computation is finished.
func (b *backend) untilDone() float64 {
	next := math.Inf(1)
	for i := range b.ranks {
		if k := &b.ranks[i]; len(k.jobs) > 0 {
			next = min(next, (k.jobs[0].doneAt-k.served)/k.speed)
		}
	}
	return next
}

// done removes and returns the requests whose computations are finished.
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

// forks is the way in which a backend starts the processes of its workers, up to the configured number.
type forks uint8

const (
	// allAtOnce starts all processes at the beginning.
	allAtOnce forks = iota
	// prefork is Apache's way, as configured in Debian. It starts five processes first. While fewer than five
	// are idle, it starts more each second, each time twice as many as before.
	prefork
	// dynamic is php-fpm's default. It starts two processes first, and one more in each second in which no
	// process is idle.
	dynamic
	// onDemand is another mode of php-fpm. It starts one process for each request that finds no idle one.
	onDemand
)

// These values are from Debian's configuration.
const (
	forkEach               = 1.0 // seconds
	preforkAtFirst         = 5
	spareLeast, spareMost  = 5, 10 // idle processes of Apache
	forkMost               = 32
	dynamicAtFirst         = 2
	dynamicLeast, idleMost = 1, 3 // idle processes of php-fpm
	idleFor                = 10.0 // seconds after which an idle process that was started on demand ends
)

// start starts the first processes.
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

// maintain starts processes and ends idle ones. It is called once a second.
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

// press starts a process on demand for a request that arrives.
func (b *backend) press() {
	if b.forks != onDemand || b.busy() < b.workers {
		return
	}
	b.pressed = b.now
	b.workers = min(b.most, b.workers+1)
}

// other is a program that computes on each of the machine's CPUs in addition to the backend.
type other struct {
	weight       float64 // 1024: the weight of one of the backend's requests
	every, lasts float64 // seconds; 0: all the time
}

// These are the weights of an ordinary program, and of a program at nice 19.
const (
	ordinaryWeight = 1024
	nicedWeight    = 15
)

// begin starts the program.
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
