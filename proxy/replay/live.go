package replay

import (
	"net/http"
	"strconv"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// Request is one that came to a sidecar, which saw more of it than a log tells.
type Request struct {
	Who    classify.Result
	Target string
	Came   time.Time
	Status int
	Passed bool // it brought a newcomer's pass
	// Eligible says that a newcomer's would be redirected if it had to wait.
	Eligible bool
	CPU      time.Duration // for which it computes
	Idle     time.Duration // for which it holds its worker beside that
	Patience time.Duration // after which its client leaves if it still waits; 0: it does not
	Note     any           // the caller's own
}

// header has the answer tell what the sidecar found out.
func (r *Request) header() http.Header {
	return http.Header{cpuaccount.CostHeader: {strconv.FormatFloat(r.CPU.Seconds(), 'f', -1, 64)}}
}

// Fate is what became of a Request.
type Fate struct {
	Waited     time.Duration // until it went to the backend, or was refused, since it came, or came again
	Held       time.Duration // for how long its answer was
	Verdict    limiter.Verdict
	Refused    bool
	Redirected bool // it was sent back for a newcomer's pass, and came again with it
	TurnedAway bool // by the backend
	Left       bool // its client left before it went to the backend
	// Guess is what it was likely to cost, Cost what it was charged with, CPU the CPU time of
	// that, as far as a meter saw it, and Stay for how long it was at the backend, Idle for how
	// long of that without computing.
	Guess, Cost, CPU, Stay, Idle time.Duration
	Exact                        bool // CPU is no estimate
	Beside                       int  // how many others were at the backend as it came there, or as it ended
}

// Live replays requests that a sidecar tells it of one by one. It is not to be used
// concurrently.
type Live struct {
	engine *engine
	free   []*job
	end    func(now time.Time, r *Request, f Fate)
}

// NewLive makes one that begins at epoch, and tells end what becomes of each request. The
// Setup's Rules need nothing but a Meter, which has to be of the source
// cpuaccount.Header.
func NewLive(epoch time.Time, s Setup, end func(now time.Time, r *Request, f Fate)) *Live {
	l := &Live{end: end}
	l.engine = newEngine(epoch, s, l)
	return l
}

// Arrive has a request come at its time, or now if that has passed. It belongs to the Live
// until end is told of it.
func (l *Live) Arrive(r *Request) {
	j := l.take()
	j.known, j.status = r, r.Status
	j.cpu, j.idle = r.CPU.Seconds(), r.Idle.Seconds()
	j.came = max(l.engine.now, r.Came.Sub(l.engine.epoch))
	j.request = http.Request{Method: http.MethodGet, RequestURI: r.Target}
	l.engine.arrive(j)
}

// Advance lets time pass.
func (l *Live) Advance(until time.Time) {
	if at := until.Sub(l.engine.epoch); at > l.engine.now {
		l.engine.run(at)
	}
}

// Now is the time that it has come to.
func (l *Live) Now() time.Time { return l.engine.time() }

// Drain has all end that is under way.
func (l *Live) Drain() { l.engine.drain() }

// SetPolicy replaces the limits and the gate from now on.
func (l *Live) SetPolicy(p limiter.Policy) { l.engine.limiter.SetPolicy(l.engine.time(), p) }

// SetWorkers says how many workers the backend has.
func (l *Live) SetWorkers(n int) { l.engine.backend.workers = max(1, n) }

// Known are the clients that are.
func (l *Live) Known() *limiter.Known { return l.engine.limiter.Known() }

func (l *Live) take() *job {
	if n := len(l.free); n > 0 {
		j := l.free[n-1]
		l.free = l.free[:n-1]
		return j
	}
	return new(job)
}

// passed implements observer.
func (l *Live) passed(time.Duration, float64) {}

// over implements observer.
func (l *Live) over(_ time.Duration, j *job, o outcome) {
	f := Fate{
		Waited: j.waited, Verdict: j.Verdict, Redirected: j.sent,
		Refused: o == refused, TurnedAway: o == turnedAway, Left: o == left,
		Guess: j.Guess, Cost: j.Cost, CPU: j.CPU, Stay: j.Stay, Idle: j.Idle, Exact: j.Exact, Beside: j.Beside,
	}
	if o == served {
		f.Held = j.HoldFor
	}
	r := j.known
	*j = job{}
	l.free = append(l.free, j)
	l.end(l.engine.time(), r, f)
}

// redirectAfter is how long a newcomer waits before it is sent back: as in the sidecar.
const redirectAfter = 100 * time.Millisecond

// sendsBack tells whether a request that waits is sent back for a pass.
func (j *job) sendsBack(now time.Duration) bool {
	return j.known != nil && j.known.Eligible && !j.sent && now-j.came >= redirectAfter && j.Stranger()
}

// sendBack has a newcomer come again, with its pass, at once.
func (e *engine) sendBack(j *job) {
	e.gate.Guess.Unask(j.Kind())
	j.Leave(e.time())
	known, request := j.known, j.request
	*j = job{known: known, request: request, status: j.status, cpu: j.cpu, idle: j.idle, came: e.now, sent: true}
	j.Adopt(e.time(), e.gate, &e.rules, &j.request, &known.Who, true)
	j.Arrive(e.time(), false)
}
