package lifecycle

import (
	"time"

	"tempomat/classify/standing"
	"tempomat/cpuaccount"
)

// Begin starts the meter, because the request goes to the backend.
func (l *Life) Begin(now time.Time) {
	l.rules.Meter.Begin(now, &l.span)
	if l.idle > 0 {
		l.span.Assume(float64(l.Guess) / float64(l.Guess+l.idle))
	}
}

// Tick charges a running request for its use since the last call. Before Begin and after Settle it does
// nothing.
func (l *Life) Tick(now time.Time) {
	if l.ticket == nil {
		return
	}
	l.mu.Lock() // the request must not be charged after it has ended
	defer l.mu.Unlock()
	if l.over {
		return
	}
	soFar, computes := l.span.SoFar(now), l.span.Computes()
	if idle := l.span.Idle(); max(soFar, idle) > l.Guess {
		l.gate.Guess.AtLeast(now, l.kind, soFar, idle)
	}
	l.gate.Limiter.Progress(now, l.ticket, soFar, computes)
}

// Pause stops the meter while the backend waits for the client. Pauses may overlap: the meter runs again once
// Resume has been called as often as Pause.
func (l *Life) Pause(now time.Time) { l.span.Pause(now) }

// Resume ends a Pause.
func (l *Life) Resume(now time.Time) { l.span.Resume(now) }

// Answered reads the header of the backend's answer: the cost, the cookies that the site sets, and the
// standing that the backend gives the client. It removes the fields that are only for tempomat.
func (l *Life) Answered(now time.Time, status int, h standing.Answer) {
	l.span.Tell(now, h)
	if s := l.rules.Standing; s != nil && !l.Who.Exempt {
		s.Answered(now, l.request, &l.visit, status, h)
	} else {
		h.Del(standing.Header)
	}
}

// Stays marks the request as a stream, which keeps its worker but computes little.
func (l *Life) Stays(now time.Time) {
	l.span.Pause(now)
	if l.ticket != nil {
		l.gate.Guess.AtLeast(now, l.kind, 0, leastStay)
		l.gate.Limiter.Hold(now, l.ticket)
	}
}

// Measured takes the CPU time that the kernel has counted for the request since Begin.
func (l *Life) Measured(now time.Time, r cpuaccount.Reading) { l.span.Measured(now, r) }

// Lost records that the request's process can no longer be measured. The rest of the cost is estimated.
func (l *Life) Lost(now time.Time) { l.span.Lost(now) }

// Yield sets how strongly the request competes for the CPUs, 0 to 1. It is 1 unless the priority of its
// process was lowered.
func (l *Life) Yield(force float64) { l.span.Yield(force) }

// CPUSoFar returns the CPU time that the request has used since Begin, without the price of holding its worker.
func (l *Life) CPUSoFar(now time.Time) time.Duration { return l.span.CPU(now) }

// SoFar returns the request's cost since Begin.
func (l *Life) SoFar(now time.Time) time.Duration { return l.span.SoFar(now) }
