package sim

import (
	"slices"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/lifecycle"
)

// How often the proxy looks after what, in seconds.
const (
	tickEach    = 0.1
	measureEach = 0.5
	learnEach   = 1.0
	stepEach    = 0.02
)

// tick is what the sidecar's driver does ten times a second.
func (p *proxy) tick() {
	p.look()
	now := p.time()
	for _, r := range slices.Clone(p.running) {
		if p.told {
			p.read(r)
		}
		r.Tick(now)
		if p.plain && r.gone && r.SoFar(now) >= r.Guess {
			p.settle(r, false) // a plain one forgets who has left
		}
	}
	for _, r := range p.waiting {
		r.Reguess(now)
	}
	p.advance()
	p.poll()
}

// step sees what requests have used, and has workers step down whose requests have computed
// for long.
func (p *proxy) step() {
	for _, r := range p.running {
		p.read(r)
		p.backend.lower(r, r.Step(max(seconds(r.had), r.Foreseen())))
	}
}

// read has the kernel tell what a request has used.
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

// look is what the sidecar sees of the backend from outside.
func (p *proxy) look() {
	b, now := p.backend, p.time()
	if !p.blind {
		p.limiter.Backlog(now, len(b.queue), b.workers)
	}
}

// measure returns what measures the CPU use each time that it is called.
func (p *proxy) measure() func() {
	before := used{}
	return func() {
		b := p.backend
		own, others, waits := b.used.own-before.own, b.used.others-before.others, (b.used.short-before.short)/measureEach
		of := measureEach * b.cpus
		use := cpuaccount.Use{CPUs: min(1, (own+others)/of), Own: own, Lacked: b.used.lacked - before.lacked, Pressure: -1}
		if p.blind { // it was no more than that
			use.Own, use.Lacked = use.Own+others, -1
		} else {
			use.CPUs = min(use.CPUs, max(own/of, waits))
		}
		before = b.used
		p.gate.Measure(p.time(), p.rules.Meter, use, p.lives)
		p.poll()
	}
}

// lives yields those of all requests at the backend.
func (p *proxy) lives(yield func(*lifecycle.Life) bool) {
	for _, r := range p.running {
		if !yield(&r.Life) {
			return
		}
	}
}

// advance tells the limiter the time, and again when it wants to be told.
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
