package sim

import "math"

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
