package sim

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/robots"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/limiter/known"
	"tempomat/proxy/lifecycle"
)

// proxy is a simulated instance without HTTP. It decides on requests with package lifecycle, as the real proxy
// does. This file replaces the code that waits, reads and writes.
type proxy struct {
	*engine
	limiter *limiter.Limiter
	gate    *lifecycle.Shared
	rules   lifecycle.Rules
	backend *backend
	plain   bool
	told    bool
	blind   bool
	spool   spool
	waiting []*request // in order of arrival; the order of a map would be random
	running []*request
	version int
	went    func(*request) // called with each request that goes to the backend; may be nil
}

// newProxy makes an instance. number is the instance's number in its fleet.
func newProxy(e *engine, b *backend, s Scenario, mode limiter.Mode, number int) (*proxy, error) {
	var sharer limiter.Sharer
	if s.share != nil {
		sharer = s.share(e)
	}
	l := limiter.New(e.time(), policyOf(mode, b.cpus, s), TableSize, sharer)
	p := &proxy{
		engine: e, backend: b, plain: s.Plain, rules: rulesOf(s, byte(number+1)), limiter: l, //nolint:gosec // any secret will do
		gate:  lifecycle.New(e.time(), l),
		spool: spool{most: s.Spool, used: map[uint32]float64{}},
	}
	p.told, p.blind = s.Told || s.Steps, s.Blind
	if s.Finds || s.Unset && !s.Blind && b.most < usualWorkers { // as with php-fpm, whose configuration contains the number
		p.limiter.Found(e.time(), b.most, "php-fpm")
	}
	b.taker = p
	p.gate.Guess = cpuaccount.NewHashedEstimator(Hash(e.seed))
	p.gate.SetWorkers(p.rules.Meter)
	if sharer != nil {
		if err := p.join(sharer, s.Trust); err != nil {
			return nil, err
		}
	}
	e.every(tickEach, p.tick)
	e.every(measureEach, p.measure())
	e.every(learnEach, func() { p.gate.SetWorkers(p.rules.Meter) })
	if s.Steps {
		p.limiter.Preempts(true)
		e.every(stepEach, p.step)
	}
	return p, nil
}

// join makes an instance share accounts with the other instances of its fleet. If secret is true, it also
// shares known clients. The Run method of a simulated sharer returns at once, because the sharer uses the
// engine's time.
func (p *proxy) join(sharer limiter.Sharer, secret bool) error {
	if secret {
		x := known.NewExchange()
		x.SetKeys([32]byte{1}, [32]byte{2})
		p.limiter.Known().Share(x, [16]byte{1})
		p.rules.Standing.Share(x, [16]byte{1})
		if p.rules.Newcomers != nil {
			p.rules.Newcomers.SetKeys([32]byte{1}, [32]byte{2})
		}
		p.every(known.PackEvery.Seconds(), func() {
			for _, packet := range x.Pack(p.time()) {
				sharer.Carry(packet)
			}
		})
	}
	return sharer.Run(context.Background(), p.limiter)
}

// arrive handles a request that arrives. It reads the body before the request goes to the gate, but reads a
// body of unknown length only for a while.
func (p *proxy) arrive(r *request) {
	r.Classify(p.time(), p.gate, &p.rules, r.http, func() bool { return false })
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

// queue makes a request wait for its turn, or until it is redirected.
func (p *proxy) queue(r *request) {
	r.Arrive(p.time(), !p.plain && r.uploading(p.now) > 0)
	p.waiting = append(p.waiting, r)
	p.poll()
	if !slices.Contains(p.waiting, r) {
		return
	}
	if d := r.RedirectAfter(); d > 0 {
		p.after(d.Seconds(), func() { p.redirect(r) })
	}
}

// redirect redirects a newcomer that is still waiting to the same page.
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

// poll handles the requests that the limiter has decided, and schedules the next call of the limiter.
func (p *proxy) poll() {
	select {
	case <-p.limiter.Due():
		p.advance()
	default:
	}
	// Checking every waiting request would take long, and usually the limiter still holds all of them. If one
	// decision is handled, the limiter may release other requests.
	for p.limiter.Held() < len(p.waiting) {
		i := slices.IndexFunc(p.waiting, isDecided)
		r := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.decided(r)
	}
}

func isDecided(r *request) bool {
	select {
	case <-r.Decided():
		return true
	default:
		return false
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

// begin sends a request to the backend.
func (p *proxy) begin(r *request) {
	r.Begin(p.time())
	r.running = true
	if p.went != nil {
		p.went(r)
	}
	p.running = append(p.running, r)
	if d := r.uploading(p.now); d > 0 { // the time that a slow client takes isn't charged
		r.Pause(p.time())
		p.after(d, func() { r.Resume(p.time()) })
	}
}

// settle ends a request at the backend. done is true if the backend has finished the request, and false if the
// proxy has given up on it.
func (p *proxy) settle(r *request, done bool) {
	p.read(r)
	r.Settle(p.time(), done, r.broken)
	r.running = false
	i := slices.Index(p.running, r)
	p.running = slices.Delete(p.running, i, i+1)
	r.Leave(p.time())
	p.poll()
}

// taking returns how many seconds an answer holds its worker: the duration of a stream, or the time until the
// client has read the part that can't be buffered.
func (p *proxy) taking(r *request) float64 {
	switch {
	case r.gone:
		return 0 // the proxy reads the answer and discards it
	case r.page.Stream > 0:
		return r.page.Stream
	case !p.plain && p.spool.keep(r):
		return 0
	}
	return r.takes(r.page.Answer - socketBuffers)
}

// begun is called when an answer that isn't complete yet begins.
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

// done is called when the backend has finished a request. It forwards the answer, unless the answer has already
// begun or the request's body was incomplete.
func (p *proxy) done(r *request) {
	if !r.running {
		return // the proxy has given up on the request
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

// answered records that an answer has begun, and returns its headers. A site that sets cookies sets one for
// each client that has none.
func (p *proxy) answered(r *request) http.Header {
	r.begun = true
	p.read(r)
	h := http.Header{"Content-Type": {"text/html"}}
	if r.client.Part(r.http.URL.Path) {
		h.Set("Content-Type", "text/css")
	} else if r.client.site.cookies && newcomer.StripLine(r.http.Header.Get("Cookie")) == "" {
		h.Set("Set-Cookie", "sid="+strconv.FormatUint(p.random.Uint64()|1<<63, 16))
	}
	if r.client.Attested {
		h.Set(standing.Header, "yes")
	}
	r.Answered(p.time(), http.StatusOK, h)
	return h
}

// leave handles a client that has given up. A running request keeps its worker until the backend finishes it.
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

// These are the periods of the proxy's regular work, in seconds.
const (
	tickEach    = 0.1
	measureEach = 0.5
	learnEach   = 1.0
	stepEach    = 0.02
)

// tick does what the driver of the real proxy does ten times a second.
func (p *proxy) tick() {
	p.look()
	now := p.time()
	for _, r := range slices.Clone(p.running) {
		if p.told {
			p.read(r)
		}
		r.Tick(now)
		if p.plain && r.gone && r.SoFar(now) >= r.Guess {
			p.settle(r, false) // a plain proxy gives up on requests whose clients have disconnected
		}
	}
	for _, r := range p.waiting {
		r.Reguess(now)
	}
	p.advance()
	p.poll()
}

// step reads the CPU time that requests have used, and reduces the priority of workers whose requests have
// computed for long.
func (p *proxy) step() {
	for _, r := range p.running {
		p.read(r)
		p.backend.lower(r, r.Step(max(seconds(r.had), r.Foreseen())))
	}
}

// read reads the CPU time that a request has used, as reported by the kernel.
func (p *proxy) read(r *request) {
	if !p.told {
		return
	}
	if r.stage == computing {
		r.had = p.backend.had(r)
		r.queued = p.now - r.since - r.had
	}
	r.Measured(p.time(), cpuaccount.Reading{CPU: seconds(r.had), Queued: seconds(r.queued)})
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// look reports to the limiter the facts about the backend that are visible from outside.
func (p *proxy) look() {
	b, now := p.backend, p.time()
	if !p.blind {
		p.limiter.Backlog(now, len(b.queue), b.workers, 0)
	}
}

// measure returns a function that measures the CPU use since its last call.
func (p *proxy) measure() func() {
	before := used{}
	return func() {
		b := p.backend
		own, others, waits := b.used.own-before.own, b.used.others-before.others, (b.used.short-before.short)/measureEach
		of := measureEach * b.cpus
		use := cpuaccount.Use{CPUs: min(1, (own+others)/of), Own: own, Lacked: b.used.lacked - before.lacked, Pressure: -1}
		if p.blind { // the backend's use isn't known, but can't exceed the use of all programs
			use.Own, use.Lacked = use.Own+others, -1
		} else {
			use.CPUs = min(use.CPUs, max(own/of, waits))
		}
		before = b.used
		p.gate.Measure(p.time(), p.rules.Meter, use, p.lives)
		p.poll()
	}
}

// lives yields the lifecycles of all requests at the backend.
func (p *proxy) lives(yield func(*lifecycle.Life) bool) {
	for _, r := range p.running {
		if !yield(&r.Life) {
			return
		}
	}
}

// advance calls the limiter's Advance, and schedules the next call.
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

// usualWorkers is the smallest number of workers of a backend that isn't php-fpm.
const usualWorkers = 16

// TableSize is how many keys the limiter remembers.
const TableSize = 65536

// The following values are the ones that tempomat-proxy derives from an empty configuration. A separate test
// checks that they agree.

// Classes returns the classes by which requests are grouped.
func Classes() []classify.Class {
	return []classify.Class{
		{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24},
		{Name: "slash16", By: classify.Slash16}, {Name: "userAgent", By: classify.UserAgent},
	}
}

// Standing returns the settings with which the standing of clients is determined.
func Standing() standing.Config {
	return standing.Config{Attested: 4, ClientClass: "slash32", SessionClass: "session"}
}

// Robots returns the settings with which robots that identify themselves are recognised.
func Robots() robots.Config {
	return robots.Config{
		Class: "robot", Replaces: []string{"slash32", "slash24", "slash16", "userAgent"},
		Robots: robots.Known(),
	}
}

// Policy returns the limiter's policy for the given numbers of CPUs and workers. If workers is 0, the limiter
// must discover the number of workers.
func Policy(mode limiter.Mode, cpus float64, workers int) limiter.Policy {
	budget := func(share, workers float64, burst time.Duration) limiter.Budget {
		return limiter.Budget{CPUs: share * cpus, Workers: workers, Burst: burst}
	}
	session := budget(0.10, 0.5, 30*time.Second)
	session.LocalOnly = true
	return limiter.Policy{
		Mode: mode, MaxHold: 30 * time.Second, MaxHeld: max(1024, int(64*cpus)),
		Memory: limiter.DefaultMemory, OtherSites: 1,
		Gate: limiter.GateOptions{CPUs: cpus, Workers: workers},
		Classes: []limiter.ClassInfo{
			{Name: "slash32", Budget: budget(0.10, 0.5, 30*time.Second)},
			{Name: "slash24", Budget: budget(0.25, 0.75, 30*time.Second)},
			{Name: "slash16", Budget: budget(0.50, 1, 30*time.Second)},
			{Name: "userAgent", Budget: budget(0.10, 0, 120*time.Second)},
			{Name: "session", Budget: session},
			{Name: "robot", Budget: budget(0.10, 0.25, 30*time.Second)},
		},
	}
}

// policyOf returns the limiter's policy in a scenario.
func policyOf(mode limiter.Mode, cpus float64, s Scenario) limiter.Policy {
	p := Policy(mode, cpus, s.configured())
	if s.Systems != nil {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: "asn", Budget: limiter.Budget{CPUs: 0.25 * cpus, Burst: 30 * time.Second}})
	}
	p.Sites = s.Sites
	if s.change != nil {
		s.change(&p)
	}
	return p
}

// rulesOf returns the proxy's rules in a scenario, with the given secret.
func rulesOf(s Scenario, secret byte) (rules lifecycle.Rules) {
	c := classify.Config{Classes: Classes(), AddressHeader: classify.NoHeader}
	if s.Systems != nil {
		c.Classes = append(c.Classes, classify.Class{Name: "asn", By: "asn"})
		c.Databases = map[string]classify.Database{"asn": s.Systems}
	}
	for _, x := range s.Sites {
		c.Sites = append(c.Sites, classify.Site{Name: x.Name, Hosts: []string{x.Name + ".test"}})
	}
	rules.Classifier = classify.New(c)
	of := Robots()
	of.Robots = append(of.Robots, s.Verified...)
	rules.Robots, rules.Standing = robots.New(of), standing.New([16]byte{secret}, Standing())
	source := cpuaccount.Corrected
	if s.Steps || s.Told {
		source = cpuaccount.Process // elapsed time doesn't show the cost of a worker with reduced priority
	}
	rules.Meter = cpuaccount.NewMeter(source, s.CPUs)
	if s.Redirect {
		rules.Newcomers = newcomer.New()
	}
	return rules
}

// socketBuffers is how many bytes of an answer the kernel buffers between backend and client.
const socketBuffers = 64 << 10

// aheadTime is how many seconds a body of unknown length is read before its request goes to the gate.
const aheadTime = 1.0

// spool buffers answers that clients read slowly, so they don't hold workers.
type spool struct {
	most float64 // bytes for each address; 0: no limit
	used map[uint32]float64
}

// keep buffers an answer. It returns false if there is no room for it.
func (s *spool) keep(r *request) bool {
	n, a := r.page.Answer, r.client.Address
	if r.takes(n) == 0 {
		return true
	}
	if s.most > 0 && s.used[a]+n > s.most {
		return false
	}
	s.used[a] += n
	r.spooled = n
	return true
}

// drop discards an answer that has been read or whose client has disconnected.
func (s *spool) drop(r *request) {
	if r.spooled > 0 {
		s.used[r.client.Address] -= r.spooled
		r.spooled = 0
	}
}
