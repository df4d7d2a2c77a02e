package replay

import (
	"cmp"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
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

// engine is the sidecar on virtual time: what waits, what runs, and what is due next. Without
// requests, nothing is due.
type engine struct {
	epoch    time.Time
	now      time.Duration // since the epoch
	limiter  *limiter.Limiter
	gate     *lifecycle.Gatekeeper
	rules    lifecycle.Rules
	measures bool // the proxy sees the backend: its CPU use, and connections that wait for a worker
	backend  backend
	tally    *tally
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
}

// outcome is how a request ended.
type outcome uint8

// The outcomes.
const (
	served outcome = iota
	refused
	turnedAway // by the backend, whose workers and queue were full
)

func newEngine(epoch time.Time, s Setup, t *tally) *engine {
	l := limiter.New(epoch, s.Policy, s.TableSize, nil)
	e := &engine{
		epoch: epoch, limiter: l, gate: lifecycle.New(epoch, l), rules: s.Rules, measures: s.Measures,
		backend: backend{cpus: s.CPUs, workers: s.Workers}, tally: t,
		page: http.Header{"Content-Type": {"text/html"}}, part: http.Header{"Content-Type": {"text/css"}},
	}
	l.Found(epoch, s.Workers, "the replay")
	e.gate.SetWorkers(e.rules.Meter)
	return e
}

func (e *engine) time() time.Time { return e.epoch.Add(e.now) }

// asleep reports whether there are no requests: then nothing happens until one comes.
func (e *engine) asleep() bool { return len(e.waiting)+len(e.running)+len(e.held) == 0 }

// arrive has a request come at its time.
func (e *engine) arrive(j *job) {
	e.run(j.came)
	if e.asleep() {
		e.wake()
	}
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
			// Rounded up: no request is done too early.
			if at := e.now + time.Duration(left*float64(time.Second)) + 1; at <= next {
				next, do = at, e.finish
			}
		}
		if e.alarm > 0 && e.alarm <= next && (do == nil || e.alarm < next) {
			next, do = e.alarm, e.advance
		}
		if at := e.ticked + tick; !e.asleep() && at <= next && (do == nil || at < next) {
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
	header := e.page
	if j.part {
		header = e.part
	}
	j.Answered(e.time(), j.status, header)
	e.settle(j, true)
}

// drain has all end that is under way.
func (e *engine) drain() {
	for !e.asleep() {
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
		e.tally.passed(to, x)
	}
}

// wake starts the periodic work. The use since the last measurement is spread over all the time
// since then.
func (e *engine) wake() {
	e.ticked = e.now.Truncate(tick)
	if e.now-e.measured >= measureTicks*tick {
		e.measure()
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
	if e.measures {
		e.limiter.Backlog(e.time(), len(e.backend.queue), e.backend.workers)
	}
}

// measure passes the CPU use to the gate.
func (e *engine) measure() {
	used, passed := e.backend.used-e.used, (e.now - e.measured).Seconds()
	e.used, e.measured = e.backend.used, e.now
	if e.measures {
		e.gate.Measure(e.time(), e.rules.Meter, cpuaccount.Use{CPUs: min(1, used/(passed*e.backend.cpus)), Own: used, Lacked: -1}, e.lives)
	}
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
	e.tally.over(j, refused)
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
	e.tally.over(j, o)
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

// acceptQueue is how many requests wait for a worker before others are rejected:
// Apache's ListenBacklog.
const acceptQueue = 511

// backend has workers, and shares its CPUs evenly among those at work.
type backend struct {
	cpus    float64
	workers int
	working []*job  // by when they are done, the last one first
	queue   []*job  // for a worker
	served  float64 // CPU-seconds that each one at work has got since they began
	used    float64 // CPU-seconds in all
}

// speed is what each one at work gets, in CPU-seconds per second.
func (b *backend) speed() float64 { return min(1, b.cpus/float64(len(b.working))) }

// pass lets that many seconds pass, in which no request is done.
func (b *backend) pass(seconds float64) {
	if n := len(b.working); n > 0 {
		x := b.speed() * seconds
		b.served += x
		b.used += x * float64(n)
	}
}

// left is how many seconds it takes until the next one is done; infinite: there is none.
func (b *backend) left() float64 {
	if len(b.working) == 0 {
		return math.Inf(1)
	}
	return max(0, b.working[len(b.working)-1].doneAt-b.served) / b.speed()
}

// send takes a request in, and tells whether there was room for it.
func (b *backend) send(j *job) bool {
	if len(b.working) < b.workers {
		b.begin(j)
		return true
	}
	if len(b.queue) >= acceptQueue {
		return false
	}
	b.queue = append(b.queue, j)
	return true
}

func (b *backend) begin(j *job) {
	if len(b.working) == 0 {
		b.served = 0 // so it stays exact however long the log is
	}
	j.doneAt = b.served + j.cpu
	i, _ := slices.BinarySearchFunc(b.working, j.doneAt, func(o *job, at float64) int { return cmp.Compare(at, o.doneAt) })
	b.working = slices.Insert(b.working, i, j)
}

// done takes out the next one that is done.
func (b *backend) done() *job {
	last := len(b.working) - 1
	j := b.working[last]
	b.working = b.working[:last]
	if len(b.queue) > 0 {
		next := b.queue[0]
		b.queue = slices.Delete(b.queue, 0, 1)
		b.begin(next)
	}
	return j
}

// job is a request while it is simulated.
type job struct {
	lifecycle.Life
	request http.Request
	url     url.URL
	status  int
	part    bool // it is for a part of a page, by its name

	cpu    float64       // CPU-seconds that it costs
	came   time.Duration // on virtual time
	waited time.Duration // until it was decided
	doneAt float64       // of the backend's service
	until  time.Duration // it is held until then
}

// newJob makes one. A log tells little of a request's headers: it has those that any
// browser has, or the lack of them would speak against it.
func newJob(e *entry) *job {
	j := &job{cpu: e.cost.Seconds(), came: e.at, status: e.status, url: url.URL{Path: e.target}}
	if !e.decoded {
		j.url = urlOf(e.target)
	}
	header := http.Header{"Accept": {"*/*"}, "Accept-Language": {"*"}, "Accept-Encoding": {"gzip"}}
	if e.agent != "" {
		header["User-Agent"] = []string{e.agent}
	}
	j.request = http.Request{
		Method: e.method, Host: e.host, URL: &j.url, RequestURI: e.target, RemoteAddr: e.address,
		Header: header, ProtoMajor: 1, ProtoMinor: 1,
	}
	j.part = hasPartName(j.url.Path)
	return j
}

// urlOf takes the target of a request line apart. One that is no URL is taken as it is.
func urlOf(target string) url.URL {
	if u, err := url.ParseRequestURI(target); err == nil {
		return url.URL{Path: cmp.Or(u.Path, "/"), RawPath: u.RawPath, RawQuery: u.RawQuery}
	}
	path, query, _ := strings.Cut(target, "?")
	return url.URL{Path: cmp.Or(path, "/"), RawQuery: query}
}

// hasPartName recognises style sheets, scripts, images and fonts by their names.
func hasPartName(path string) bool {
	dot := strings.LastIndexByte(path, '.')
	if dot < 0 || len(path)-dot > len(".woff2") {
		return false
	}
	switch path[dot+1:] {
	case "css", "js", "mjs", "png", "jpg", "jpeg", "gif", "webp", "avif", "svg", "ico", "woff", "woff2", "ttf":
		return true
	}
	return false
}
