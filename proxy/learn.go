package proxy

import (
	"math"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/lifecycle"
)

// learnEvery is how often it is looked how many workers the gate knows of.
const learnEvery = time.Second

// learnt is what the Handler knows of the backend by looking at it.
type learnt struct {
	workers int
	tell    func(workers int, by string)
}

// TellWorkers has f called when another number of workers of the backend was
// learnt, with what it was learnt by. It is set before Drive runs.
func (h *Handler) TellWorkers(f func(workers int, by string)) { h.learnt.tell = f }

// learn looks how many workers the gate has found.
func (h *Handler) learn() {
	n, by := h.gate.SetWorkers(h.Policy().Meter)
	if h.learnt.workers != n && h.learnt.tell != nil {
		h.learnt.tell(n, by)
	}
	h.learnt.workers = n
}

// Measure takes in what was used of the CPUs since it was called last. One goroutine calls it, about twice a second.
func (h *Handler) Measure(now time.Time, use cpuaccount.Use) {
	h.pressure.Store(math.Float64bits(use.Pressure))
	h.gate.Measure(now, h.Policy().Meter, use, h.lives)
}

// Pressure is the part of the time, 0 to 1, in which somebody waited for a CPU, as it was
// measured last; negative: it never was.
func (h *Handler) Pressure() float64 { return math.Float64frombits(h.pressure.Load()) }

// lives yields those of all requests at the backend.
func (h *Handler) lives(yield func(*lifecycle.Life) bool) {
	more := true
	h.running.Each(func(x *exchange) { more = more && yield(&x.Life) })
}
