package sim

import (
	"net/http"
	"slices"
	"strconv"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// proxy is a sidecar without HTTP. What is decided of a request is the very code
// of the real one, package lifecycle; here is what there waits, reads and writes.
type proxy struct {
	*engine
	limiter *limiter.Limiter
	gate    *lifecycle.Gatekeeper
	rules   lifecycle.Rules
	backend *backend
	plain   bool
	told    bool
	blind   bool
	spool   spool
	waiting []*request // in the order of their arrival, as maps have none
	running []*request
	version int
	went    func(*request) // is told who goes to the backend; nil: nobody
}

func newProxy(e *engine, b *backend, s Scenario, mode limiter.Mode) (*proxy, error) {
	rules, err := rulesOf(e.time(), s)
	if err != nil {
		return nil, err
	}
	l := limiter.New(e.time(), policyOf(mode, b.cpus, s), TableSize, nil)
	p := &proxy{
		engine: e, backend: b, plain: s.Plain, rules: rules, limiter: l, gate: lifecycle.New(e.time(), l),
		spool: spool{most: s.Spool, used: map[uint32]float64{}},
	}
	p.told, p.blind = s.Told || s.Steps, s.Blind
	if s.Finds || s.Unset && !s.Blind && b.most < usualWorkers { // php-fpm, whose configuration tells
		p.limiter.Found(e.time(), b.most, "php-fpm")
	}
	b.taker = p
	p.gate.Guess = cpuaccount.NewHashedEstimator(Hash(e.seed))
	p.gate.SetWorkers(p.rules.Meter)
	e.every(tickEach, p.tick)
	e.every(measureEach, p.measure())
	e.every(learnEach, func() { p.gate.SetWorkers(p.rules.Meter) })
	if s.Steps {
		p.limiter.Preempts(true)
		e.every(stepEach, p.step)
	}
	return p, nil
}

// arrive takes a request in. Its body is read before it asks for a place, but of
// one of unknown length only for a while.
func (p *proxy) arrive(r *request) {
	r.Classify(p.time(), p.gate, &p.rules, r.http, classify.Seen{})
	d := r.uploading(p.now)
	if r.page.Chunked {
		d = min(d, aheadTime)
	}
	if d == 0 || p.plain || r.WouldRefuse() {
		p.queue(r)
		return
	}
	p.after(d, func() {
		if !r.gone {
			p.queue(r)
		}
	})
}

// queue has a request wait for its turn, or until it is redirected.
func (p *proxy) queue(r *request) {
	r.Arrive(p.time(), !p.plain && r.uploading(p.now) > 0)
	p.waiting = append(p.waiting, r)
	p.poll()
	if !slices.Contains(p.waiting, r) {
		return
	}
	if d := r.Patience(); d > 0 {
		p.after(d.Seconds(), func() { p.redirect(r) })
	}
}

// redirect sends a newcomer that still waits to where it wants to go.
func (p *proxy) redirect(r *request) {
	i := slices.Index(p.waiting, r)
	if i < 0 {
		return
	}
	p.waiting = slices.Delete(p.waiting, i, i+1)
	a := answer{header: http.Header{}}
	r.Redirect(p.time(), &a)
	r.Leave(p.time())
	p.poll()
	r.answer(a.status, a.header)
}

// poll looks who was decided, and asks for the time at which the limiter wants
// to be called.
func (p *proxy) poll() {
	select {
	case <-p.limiter.Due():
		p.advance()
	default:
	}
	for i := 0; i < len(p.waiting); i++ {
		r := p.waiting[i]
		select {
		case <-r.Decided():
			p.waiting = slices.Delete(p.waiting, i, i+1)
			p.decided(r)
			i = -1 // it may have let others go
		default:
		}
	}
}

func (p *proxy) decided(r *request) {
	if !r.Admitted() {
		r.Leave(p.time())
		status, v := http.StatusTooManyRequests, r.Verdict
		if v.Reason == limiter.ServerFull || v.Reason == limiter.Busy {
			status = http.StatusServiceUnavailable
		}
		r.answer(status, http.Header{"Retry-After": {strconv.FormatFloat(v.Wait.Seconds(), 'f', -1, 64)}})
		return
	}
	p.begin(r)
	if !p.backend.send(r) {
		p.settle(r, false)
		r.answer(http.StatusServiceUnavailable, http.Header{})
	}
}

// begin has a request go to the backend.
func (p *proxy) begin(r *request) {
	r.Begin(p.time())
	r.running = true
	if p.went != nil {
		p.went(r)
	}
	p.running = append(p.running, r)
	if d := r.uploading(p.now); d > 0 { // its client pays no CPU for being slow
		r.Pause(p.time())
		p.after(d, func() { r.Resume(p.time()) })
	}
}

// settle ends a request at the backend, which has finished (done) or was given up.
func (p *proxy) settle(r *request, done bool) {
	p.read(r)
	r.Settle(p.time(), done, r.broken)
	r.running = false
	i := slices.Index(p.running, r)
	p.running = slices.Delete(p.running, i, i+1)
	r.Leave(p.time())
	p.poll()
}

// taking is for how long an answer holds its worker: as long as a stream goes
// on, or until its client has read what nobody else has room for.
func (p *proxy) taking(r *request) float64 {
	switch {
	case r.gone:
		return 0 // it is drained
	case r.page.Stream > 0:
		return r.page.Stream
	case !p.plain && p.spool.keep(r):
		return 0
	}
	return r.takes(r.page.Answer - socketBuffers)
}

// begun is called when an answer begins that is not complete yet.
func (p *proxy) begun(r *request) {
	h := p.answered(r)
	if r.page.Stream > 0 && !p.plain {
		r.Stays(p.time())
	} else if r.page.Stream == 0 {
		r.Pause(p.time())
	}
	r.answer(http.StatusOK, h)
	p.poll()
}

// done is called when the backend is. Of a stream that nobody listens to, and of a
// body that broke off, the end is none.
func (p *proxy) done(r *request) {
	if !r.running {
		return // it was forgotten
	}
	var h http.Header
	if !r.broken && !r.begun {
		h = p.answered(r)
	}
	p.settle(r, !r.broken && (r.page.Stream == 0 || !r.gone))
	if h != nil {
		r.answer(http.StatusOK, h)
	}
	r.over()
}

// answered takes note of an answer and returns its header. The site gives
// everybody a cookie who has none, if it gives any.
func (p *proxy) answered(r *request) http.Header {
	r.begun = true
	p.read(r)
	h := http.Header{"Content-Type": {"text/html"}}
	if r.client.Part(r.http.URL.Path) {
		h.Set("Content-Type", "text/css")
	} else if r.client.site.cookies && len(newcomer.StripPass(r.http.Header["Cookie"])) == 0 {
		h.Set("Set-Cookie", "sid="+strconv.FormatUint(p.random.Uint64()|1<<63, 16))
	}
	if r.client.Attested {
		h.Set(standing.Header, "yes")
	}
	r.Answered(p.time(), http.StatusOK, h)
	return h
}

// leave takes out a request whose client gave up. What runs, runs on: it keeps
// its place until the backend is done.
func (p *proxy) leave(r *request) {
	r.gone = true
	p.spool.drop(r)
	if i := slices.Index(p.waiting, r); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		r.Leave(p.time())
		p.poll()
	}
	if !r.running {
		return
	}
	if !p.plain {
		r.Orphan(p.time())
	}
	p.backend.hangUp(r)
	p.poll()
}
