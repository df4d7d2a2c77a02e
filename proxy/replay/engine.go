package replay

import (
	"net/http"
	"slices"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// How often the proxy looks after what. A tick finds out what runs on and what waits
// still; the other two are so many of them.
const (
	tick         = 100 * time.Millisecond
	measureTicks = 5
	learnTicks   = 10
)

// engine is the sidecar on virtual time: who waits, what runs, and what is due next.
// While nobody is there, nothing is.
type engine struct {
	epoch    time.Time
	now      time.Duration // since the epoch
	limiter  *limiter.Limiter
	gate     *lifecycle.Gatekeeper
	rules    lifecycle.Rules
	measures bool // the proxy sees the backend: its CPU use, and who waits for a worker
	backend  backend
	observer observer
	// page and part are the headers of answers, as far as they can be told: all that is
	// not named as a part of a page is one.
	page, part http.Header

	waiting  []*job
	running  []*job        // at the backend, those that wait for a worker there included
	held     []*job        // whose answers are held
	alarm    time.Duration // when the limiter wants to be called; 0: not at all
	ticked   time.Duration // the latest tick
	used     float64       // of the backend, when that was measured last
	measured time.Duration // when that was
	asleep   bool          // nobody is there, and that was measured
}

// observer takes down what became of requests.
type observer interface {
	// passed is told that the backend has used so many CPU-seconds until now.
	passed(now time.Duration, used float64)
	// over is told the end of a request. It is not kept.
	over(now time.Duration, j *job, o outcome)
}

// outcome is how a request ended.
type outcome uint8

// The outcomes.
const (
	served outcome = iota
	refused
	turnedAway // by the backend, whose workers and queue were full
	left       // its client did
)

func newEngine(epoch time.Time, s Setup, o observer) *engine {
	l := limiter.New(epoch, s.Policy, s.TableSize, nil)
	e := &engine{
		epoch: epoch, limiter: l, gate: lifecycle.New(epoch, l), rules: s.Rules, measures: s.Measures,
		backend: backend{cpus: s.CPUs}, observer: o, asleep: true,
		page: http.Header{"Content-Type": {"text/html"}}, part: http.Header{"Content-Type": {"text/css"}},
	}
	e.setWorkers(s.Workers)
	e.gate.SetWorkers(e.rules.Meter)
	return e
}

// setWorkers says how many workers the backend has, which the gate knows.
func (e *engine) setWorkers(n int) {
	e.backend.workers = n
	e.limiter.Found(e.time(), n, "the replay")
}

func (e *engine) time() time.Time { return e.epoch.Add(e.now) }

// arrive has a request come at its time.
func (e *engine) arrive(j *job) {
	e.run(j.came)
	e.wake()
	j.Classify(e.time(), e.gate, &e.rules, &j.request, classify.Seen{})
	if j.Who.Exempt {
		e.begin(j)
		return
	}
	j.Arrive(e.time(), false)
	e.waiting = append(e.waiting, j)
	e.poll()
}

// run has all happen that does until a time.
func (e *engine) run(until time.Duration) {
	for {
		next, do := until, (func())(nil)
		if left := e.backend.left(); left < (until - e.now + time.Second).Seconds() {
			// Rounded up: nobody is done too early.
			if at := e.now + time.Duration(left*float64(time.Second)) + 1; at <= next {
				next, do = at, e.finish
			}
		}
		if e.alarm > 0 && e.alarm <= next && (do == nil || e.alarm < next) {
			next, do = e.alarm, e.advance
		}
		if at := e.ticked + tick; !e.asleep && at <= next && (do == nil || at < next) {
			next, do = at, e.tick
		}
		e.pass(next)
		if do == nil {
			return
		}
		do()
		e.poll()
	}
}

// finish ends the run of a request at the backend.
func (e *engine) finish() {
	j := e.backend.done()
	if j == nil {
		return
	}
	header := e.page
	if j.part {
		header = e.part
	}
	j.Answered(e.time(), j.status, header)
	e.settle(j, true)
}

// drain has all end that is under way.
func (e *engine) drain() {
	for len(e.waiting)+len(e.running)+len(e.held) > 0 {
		e.run(e.now + time.Second)
	}
}

// pass lets the time pass.
func (e *engine) pass(to time.Duration) {
	if to <= e.now {
		return
	}
	before := e.backend.used
	e.backend.pass((to - e.now).Seconds())
	e.now = to
	if x := e.backend.used - before; x > 0 {
		e.observer.passed(to, x)
	}
}

// wake begins to look after what is there, and does what was not done as nobody was.
func (e *engine) wake() {
	if !e.asleep {
		return
	}
	e.asleep = false
	e.ticked = e.now.Truncate(tick)
	if last := e.now.Truncate(measureTicks * tick); last > e.measured && e.measures {
		e.measured = last
		e.gate.Measure(e.epoch.Add(last), e.rules.Meter, cpuaccount.Use{}, e.lives)
	}
}

// tick is what the sidecar's driver does ten times a second.
func (e *engine) tick() {
	e.ticked = e.now
	e.look()
	now := e.time()
	for _, j := range e.running {
		j.Tick(now)
	}
	for _, j := range e.waiting {
		j.Reguess(now)
	}
	e.release()
	e.advance()
	e.poll()
	n := e.now / tick
	if n%measureTicks == 0 {
		e.measure()
	}
	if n%learnTicks == 0 {
		e.gate.SetWorkers(e.rules.Meter)
	}
}

// look is what the sidecar sees of the backend from outside.
func (e *engine) look() {
	if !e.measures {
		return
	}
	b, now := &e.backend, e.time()
	e.limiter.Backlog(now, len(b.queue), b.workers)
}

// measure tells the gate the CPU use. Where nothing was used, and nobody is there,
// nothing more happens until somebody comes.
func (e *engine) measure() {
	used := e.backend.used - e.used
	e.used = e.backend.used
	if e.measures {
		passed := (e.now - e.measured).Seconds()
		e.measured = e.now
		e.gate.Measure(e.time(), e.rules.Meter, cpuaccount.Use{CPUs: min(1, used/(passed*e.backend.cpus)), Own: used}, e.lives)
	}
	e.asleep = used == 0 && len(e.waiting)+len(e.running)+len(e.held) == 0
}

// lives yields those of all requests at the backend.
func (e *engine) lives(yield func(*lifecycle.Life) bool) {
	for _, j := range e.running {
		if !yield(&j.Life) {
			return
		}
	}
}

// advance tells the limiter the time, and takes down when it wants to be told again.
func (e *engine) advance() {
	e.alarm = 0
	if next := e.limiter.Advance(e.time()); !next.IsZero() {
		e.alarm = max(e.now+1, next.Sub(e.epoch))
	}
}

// poll looks who was decided.
func (e *engine) poll() {
	select {
	case <-e.limiter.Due():
		e.advance()
	default:
	}
	for i := 0; i < len(e.waiting); i++ {
		j := e.waiting[i]
		select {
		case <-j.Decided():
			e.waiting = slices.Delete(e.waiting, i, i+1)
			e.decided(j)
			i = -1 // it may have let others go
		default:
		}
	}
}

func (e *engine) decided(j *job) {
	j.waited = e.now - j.came
	if j.Admitted() {
		e.begin(j)
		return
	}
	j.Leave(e.time())
	e.observer.over(e.now, j, refused)
}

// begin has a request go to the backend.
func (e *engine) begin(j *job) {
	j.Begin(e.time())
	e.running = append(e.running, j)
	if !e.backend.send(j) {
		e.settle(j, false)
	}
}

// settle ends a request at the backend, which has finished (done), or had no room.
func (e *engine) settle(j *job, done bool) {
	j.Settle(e.time(), done, false)
	i := slices.Index(e.running, j)
	e.running = slices.Delete(e.running, i, i+1)
	switch {
	case j.HoldFor > 0:
		j.until = e.now + j.HoldFor
		e.held = append(e.held, j)
		return
	case done:
		e.leave(j, served)
	default:
		e.leave(j, turnedAway)
	}
}

func (e *engine) leave(j *job, o outcome) {
	j.Leave(e.time())
	e.observer.over(e.now, j, o)
}

// release ends the requests whose answers were held for long enough.
func (e *engine) release() {
	e.held = slices.DeleteFunc(e.held, func(j *job) bool {
		if j.until > e.now {
			return false
		}
		e.leave(j, served)
		return true
	})
}
