package lifecycle

import (
	"time"

	"tempomat/classify/standing"
	"tempomat/cpuaccount"
)

// Begin has the meter run: the request goes to the backend.
func (l *Life) Begin(now time.Time) {
	l.rules.Meter.Begin(now, &l.span)
	if l.idle > 0 {
		l.span.Assume(float64(l.Guess) / float64(l.Guess+l.idle))
	}
}

// Tick charges a request on that runs. Before Begin and after Settle it does
// nothing.
func (l *Life) Tick(now time.Time) {
	if l.ticket == nil {
		return
	}
	l.mu.Lock() // so nothing is reported for a request that has ended
	defer l.mu.Unlock()
	if l.over {
		return
	}
	soFar, computes := l.span.SoFar(now), l.span.Computes()
	if idle := l.span.Idle(); max(soFar, idle) > l.Guess {
		l.gate.Guess.AtLeast(now, l.Kind(), soFar, idle)
	}
	l.gate.Limiter.Progress(now, l.ticket, soFar, computes)
}

// Pause stops the count of CPU time while the backend waits for the client. Pauses
// may overlap; the count goes on after as many calls of Resume.
func (l *Life) Pause(now time.Time) { l.span.Pause(now) }

// Resume ends a Pause.
func (l *Life) Resume(now time.Time) { l.span.Resume(now) }

// Answered takes in the header of the backend's answer: its cost, the cookies that the site
// sets, and its word about the client. What is meant for tempomat only is removed from the
// header.
func (l *Life) Answered(now time.Time, status int, h standing.Answer) {
	l.span.Tell(now, h)
	if s := l.rules.Standing; s != nil && !l.Who.Exempt {
		s.Answered(now, l.request, &l.visit, status, h)
	} else {
		h.Del(standing.Header)
	}
}

// Stays marks a request that keeps its worker from now on but computes little: a stream.
func (l *Life) Stays(now time.Time) {
	l.span.Pause(now)
	if l.ticket != nil {
		l.gate.Guess.AtLeast(now, l.Kind(), 0, leastStay)
		l.gate.Limiter.Hold(now, l.ticket)
	}
}

// Measured takes in what the kernel counted for the request since Begin.
func (l *Life) Measured(now time.Time, r cpuaccount.Reading) { l.span.Measured(now, r) }

// Lost ends counting for it: the rest is estimated.
func (l *Life) Lost(now time.Time) { l.span.Lost(now) }

// Yield says with what force it competes for the CPUs, 0 to 1: 1 is that of one whose process has the
// priority that it came with.
func (l *Life) Yield(force float64) { l.span.Yield(force) }

// CPUSoFar is the CPU time of what a request has cost since Begin, without what its worker is worth.
func (l *Life) CPUSoFar(now time.Time) time.Duration { return l.span.CPU(now) }

// SoFar is what a request has cost since Begin.
func (l *Life) SoFar(now time.Time) time.Duration { return l.span.SoFar(now) }
