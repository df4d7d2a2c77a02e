package proxy

import (
	"time"

	"tempomat/cpuaccount"
)

// learnEvery is how often it is looked how many workers the gate has found.
const learnEvery = time.Second

// learnt is what the Handler knows of the backend by looking at it.
type learnt struct {
	workers  int
	measured time.Time // the CPU use, last
	tell     func(workers int, by string)
}

// TellWorkers has f called when another number of workers of the backend was
// learnt, with what it was learnt by. It is set before Drive runs.
func (h *Handler) TellWorkers(f func(workers int, by string)) { h.learnt.tell = f }

// learn makes the meter charge for a worker what it is worth, of as many as the
// gate has found.
func (h *Handler) learn() {
	n, by := h.limiter.Workers()
	h.Policy().Meter.SetWorkers(float64(n))
	if was := h.learnt.workers; was != n && was != 0 && h.learnt.tell != nil {
		h.learnt.tell(n, by)
	}
	h.learnt.workers = n
}

// Measure takes in what part of the backend's CPUs, 0 to 1, was used since it
// was called last. What the requests there are charged with is held against that,
// and how many may compute at a time follows it. One goroutine calls it, about
// twice a second.
func (h *Handler) Measure(now time.Time, use float64) {
	since := h.learnt.measured
	h.learnt.measured = now
	if !since.IsZero() {
		h.Policy().Meter.Correct(now, since, use, h.spans)
	}
	h.limiter.Measure(now, use)
}

// spans yields those of all requests at the backend.
func (h *Handler) spans(yield func(*cpuaccount.Span) bool) {
	more := true
	h.running.each(func(x *exchange) { more = more && yield(&x.span) })
}
