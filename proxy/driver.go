package proxy

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/lifecycle"
)

// Drive tells the limiter the time until the context ends: it releases what
// waits when it is due, charges on what runs, and notices who has left. The
// Handler needs exactly one goroutine that does this.
func (h *Handler) Drive(ctx context.Context) {
	defer h.end()
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	learns := time.NewTicker(learnEvery)
	defer learns.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	h.learn()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			now := time.Now()
			h.progress(now)
			h.reguess(now)
		case <-learns.C:
			h.learn()
		case <-due.C:
		case <-h.limiter.Due():
		}
		now := time.Now()
		if next := h.limiter.Advance(now); next.IsZero() {
			due.Stop()
		} else {
			due.Reset(next.Sub(now))
		}
		h.passes.Add(1)
	}
}

// Passes is how often Drive has looked after all requests, at least ten times a second. If
// it does not grow, something holds the locks that each request needs, or Drive is
// dead. It may be called concurrently.
func (h *Handler) Passes() int64 { return h.passes.Load() }

// progress charges on what runs.
func (h *Handler) progress(now time.Time) {
	var spent []*exchange
	h.running.Each(func(x *exchange) {
		if x.backend.lingers {
			if !now.Before(x.backend.until) {
				spent = append(spent, x)
			}
			return
		}
		x.watch(now)
		x.life.Tick(now)
	})
	for _, x := range spent {
		h.expire(now, x)
	}
}

// end lets nothing go on at the backend: the server has come to its end.
func (h *Handler) end() {
	var lingering []*exchange
	h.running.Each(func(x *exchange) {
		if x.backend.lingers {
			lingering = append(lingering, x)
		} else {
			x.client.conn.call.Cancel()
		}
	})
	for _, x := range lingering {
		h.expire(time.Now(), x)
	}
}

// mostLooks is about how many waiting clients are checked in a tick for having disconnected:
// each check is a system call.
const mostLooks = 1000

// reguess guesses again what waiting requests will cost, because requests of their kinds may
// have been answered since, and looks whether their clients are still there.
func (h *Handler) reguess(now time.Time) {
	n := 0
	h.waiting.Each(func(x *exchange) {
		if n++; h.crowd <= mostLooks || rand.IntN(h.crowd) < mostLooks { //nolint:gosec // any choice will do
			x.look()
		}
		x.noticeBroken()
		x.life.Reguess(now)
	})
	h.crowd = n
}

// learnEvery is how often the meter is told how many workers the gate has found.
const learnEvery = time.Second

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

// Pressure is the part of the time, 0 to 1, in which a process waited for a CPU, at the last
// measurement; negative: there was none.
func (h *Handler) Pressure() float64 { return math.Float64frombits(h.pressure.Load()) }

// lives yields those of all requests at the backend.
func (h *Handler) lives(yield func(*lifecycle.Life) bool) {
	more := true
	h.running.Each(func(x *exchange) { more = more && yield(&x.life) })
}

// look checks whether the client is still connected.
func (x *exchange) look() {
	x.client.writer.Look()
}
