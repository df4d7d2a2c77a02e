package limitertest

import (
	"slices"
	"time"

	"tempomat/cpuaccount"
)

// measureEach is how often the proxy looks how much of the CPUs is used, in
// seconds.
const measureEach = 0.5

// begin has the meter run for a request that goes to the backend.
func (p *proxy) begin(r *request) {
	r.running = true
	p.running = append(p.running, r)
	p.meter.Begin(p.time(), &r.span)
	if r.idle > 0 {
		r.span.Assume(float64(r.guess) / float64(r.guess+r.idle))
	}
	if d := r.uploading(p.now); d > 0 { // its client pays no CPU for being slow
		r.span.Pause(p.time())
		p.after(d, func() { r.span.Resume(p.time()) })
	}
}

// pause stops the meter while a client is slow to read.
func (p *proxy) pause(r *request) { r.span.Pause(p.time()) }

// soFar is what a request has cost.
func (p *proxy) soFar(r *request) time.Duration { return r.span.SoFar(p.time()) }

// end stops the meter for good.
func (p *proxy) end(r *request) {
	r.running = false
	i := slices.Index(p.running, r)
	p.running = slices.Delete(p.running, i, i+1)
	r.span.End(p.time())
}

// measured takes in how many CPU-seconds all requests have used since it was
// called last.
func (p *proxy) measured(used float64) {
	use := min(1, used/(measureEach*p.backend.cpus))
	n, _ := p.limiter.Workers()
	p.meter.SetWorkers(float64(n))
	since := p.time().Add(-time.Duration(measureEach * float64(time.Second)))
	p.meter.Correct(p.time(), since, use, func(yield func(*cpuaccount.Span) bool) {
		for _, r := range p.running {
			if !yield(&r.span) {
				return
			}
		}
	})
	p.limiter.Measure(p.time(), use)
}
