package limitertest

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// proxy is a sidecar without HTTP: the same parts, in the same order.
type proxy struct {
	*engine
	limiter    *limiter.Limiter
	classifier *classify.Classifier
	standing   *classify.Standing
	guess      *cpuaccount.Guess
	meter      *cpuaccount.Meter
	backend    *backend
	plain      bool
	spool      spool
	waiting    []*request // in the order of their arrival, as maps have none
	running    []*request
	version    int
}

// usualWorkers is how many a backend has at least that is no php-fpm.
const usualWorkers = 16

func classes() []classify.Class {
	return []classify.Class{
		{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24},
		{Name: "slash16", By: classify.Slash16}, {Name: "userAgent", By: classify.UserAgent},
	}
}

// Policy is the usual one, for so many CPUs and workers.
func Policy(mode limiter.Mode, cpus float64, workers int) limiter.Policy {
	p := limiter.Policy{
		Mode: mode, MaxHold: 30 * time.Second, MaxHeld: 512, MaxHeldPerClient: 64,
		Gate: limiter.Gate{CPUs: cpus, Workers: workers},
	}
	for _, c := range []struct {
		name           string
		share, workers float64
	}{{"slash32", .1, .5}, {"slash24", .25, .75}, {"slash16", .5, 1}, {"userAgent", .1, 0}, {"session", .1, .5}} {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: c.name, Budget: limiter.Budget{
			Workers: c.workers,
			CPUs:    c.share * cpus, Burst: time.Duration(30 * c.share * cpus * float64(time.Second)),
		}})
	}
	return p
}

func newProxy(e *engine, b *backend, s Scenario, mode limiter.Mode) (*proxy, error) {
	classifier, err := classify.New(classify.Config{Classes: classes(), AddressHeader: classify.NoHeader})
	if err != nil {
		return nil, err
	}
	standing, err := classify.NewStanding([16]byte{1}, classify.StandingConfig{
		Attested: 4, ClientClass: "slash32", SessionClass: "session",
	})
	if err != nil {
		return nil, err
	}
	p := &proxy{
		engine: e, backend: b, classifier: classifier, standing: standing, plain: s.Plain,
		limiter: limiter.New(e.time(), Policy(mode, b.cpus, s.configured()), 65536, nil),
		guess:   cpuaccount.NewGuess(),
		meter:   cpuaccount.NewMeter(cpuaccount.Corrected, b.cpus, float64(s.configured())),
		spool:   spool{most: s.Spool, used: map[uint32]float64{}},
	}
	if s.Unset && b.workers < usualWorkers { // php-fpm, whose configuration tells
		p.limiter.Found(e.time(), b.workers, "php-fpm")
	}
	b.taker = p
	e.every(0.1, p.tick)
	used := 0.0
	e.every(measureEach, func() {
		p.measured(b.used - used)
		used = b.used
		p.poll()
	})
	return p, nil
}

// arrive takes a request in. Its body is read before it asks for a place.
func (p *proxy) arrive(r *request) {
	if d := r.uploading(p.now); d > 0 && !p.plain && !r.page.Chunked {
		p.after(d, func() {
			if !r.gone {
				p.queue(r)
			}
		})
		return
	}
	p.queue(r)
}

// queue has a request wait for its turn.
func (p *proxy) queue(r *request) {
	now := p.time()
	p.classifier.Classify(r.http, &r.who)
	p.standing.Judge(now, r.http, &r.who)
	p.guess.Ask(r.kind())
	e := p.estimate(now, r)
	r.guess, r.idle = e.Guess, e.Idle
	r.ticket = p.limiter.Arrive(now, limiter.Arrival{
		Keys: r.who.Keys(), Guess: e.Guess, Idle: e.Idle, Running: e.Running, Sure: e.Sure,
		Standing: r.who.Standing, Proven: r.who.Evidence.Proves(), Company: r.who.Company,
	})
	p.waiting = append(p.waiting, r)
	p.poll()
}

// estimate is what a request will likely take of the backend.
func (p *proxy) estimate(now time.Time, r *request) (e limiter.Estimate) {
	if e.Guess, e.Idle, e.Sure = p.guess.Of(now, r.kind()); !e.Sure {
		e.Running = p.guess.Running(now, r.kind())
	}
	return e
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
		case <-r.ticket.Decided():
			p.waiting = slices.Delete(p.waiting, i, i+1)
			p.decided(r)
			i = -1 // it may have let others go
		default:
		}
	}
}

func (p *proxy) advance() {
	p.version++
	next := p.limiter.Advance(p.time())
	if next.IsZero() {
		return
	}
	version := p.version
	p.after(next.Sub(p.time()).Seconds(), func() {
		if version == p.version {
			p.advance()
			p.poll()
		}
	})
}

func (p *proxy) decided(r *request) {
	if v := r.ticket.Verdict(); v.Acts() {
		p.limiter.Leave(p.time(), r.ticket)
		status := http.StatusTooManyRequests
		if v.Reason == limiter.ServerFull || v.Reason == limiter.Busy {
			status = http.StatusServiceUnavailable
		}
		r.answer(status, http.Header{"Retry-After": {strconv.FormatFloat(v.Wait.Seconds(), 'f', -1, 64)}})
		return
	}
	p.begin(r)
	if !p.backend.send(r) {
		p.settle(r, 0)
		r.answer(http.StatusServiceUnavailable, http.Header{})
	}
}

func (p *proxy) settle(r *request, cost time.Duration) {
	p.end(r)
	p.limiter.Settle(p.time(), r.ticket, cost)
	p.limiter.Leave(p.time(), r.ticket)
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
	if r.page.Stream > 0 && !p.plain {
		p.pause(r)
		p.guess.AtLeast(p.time(), r.kind(), 0, time.Second)
		p.limiter.Hold(p.time(), r.ticket)
	} else if r.page.Stream == 0 {
		p.pause(r)
	}
	r.answer(http.StatusOK, p.answered(r))
	p.poll()
}

// done is called when the backend is.
func (p *proxy) done(r *request) {
	if !r.running {
		return // it was forgotten
	}
	cost := p.soFar(r)
	var h http.Header
	if !r.broken {
		p.guess.Learn(p.time(), r.kind(), cost, r.span.Idle())
		if !r.begun {
			h = p.answered(r)
		}
	}
	p.settle(r, cost)
	if h != nil {
		r.answer(http.StatusOK, h)
	}
	r.over()
}

// answered takes note of an answer and returns its header. The site gives
// everybody a cookie who has none, if it gives any.
func (p *proxy) answered(r *request) http.Header {
	r.begun = true
	p.limiter.Answering(p.time(), r.ticket)
	h := http.Header{"Content-Type": {"text/html"}}
	if r.client.Part(r.http.URL.Path) {
		h.Set("Content-Type", "text/css")
	} else if r.client.site.cookies && len(r.http.Header["Cookie"]) == 0 {
		h.Set("Set-Cookie", "sid="+strconv.FormatUint(p.random.Uint64()|1<<63, 16))
	}
	if r.client.Attested {
		h.Set(classify.StandingHeader, "yes")
	}
	p.standing.Answered(p.time(), r.http, &r.who, http.StatusOK, h)
	return h
}

// leave takes out a request whose client gave up. What runs, runs on: it keeps
// its place until the backend is done.
func (p *proxy) leave(r *request) {
	r.gone = true
	p.spool.drop(r)
	if i := slices.Index(p.waiting, r); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.limiter.Leave(p.time(), r.ticket)
		p.poll()
	}
	if !r.running {
		return
	}
	if !p.plain {
		p.limiter.Orphan(p.time(), r.ticket)
	}
	p.backend.hangUp(r)
	p.poll()
}

// look is what the sidecar sees of the backend from outside.
func (p *proxy) look() {
	b, now := p.backend, p.time()
	p.limiter.Backlog(now, len(b.queue))
	if n := p.limiter.Wants(now); n > 0 {
		p.limiter.Tried(now, n, max(0, min(n, b.busy()+len(b.queue)+n-b.workers)))
	}
}

// tick is what the sidecar's driver does ten times a second.
func (p *proxy) tick() {
	p.look()
	now := p.time()
	for _, r := range slices.Clone(p.running) {
		soFar := p.soFar(r)
		if idle := r.span.Idle(); max(soFar, idle) > r.guess {
			p.guess.AtLeast(now, r.kind(), soFar, idle)
		}
		p.limiter.Progress(now, r.ticket, soFar, r.span.Computes())
		if p.plain && r.gone && soFar >= r.guess {
			p.settle(r, soFar) // a plain one forgets who has left
		}
	}
	for _, r := range p.waiting {
		p.limiter.Reguess(now, r.ticket, p.estimate(now, r))
	}
	p.poll()
}
