package sim

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
