package proxy

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"tempomat/cpuaccount"
	"tempomat/proxy/lifecycle"
)

// Drive runs the limiter's clock until the context ends. It starts queued requests when they are due,
// charges running ones, and notices clients that have disconnected. Exactly one goroutine must run it.
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

// Passes counts Drive's passes over all requests, at least ten a second. If the number doesn't grow, some
// goroutine holds a lock that every request needs, or Drive has ended. It may be called concurrently.
func (h *Handler) Passes() int64 { return h.passes.Load() }

// progress charges running requests for the CPU time that they have used since the last call, and frees the
// places of requests that have lingered long enough.
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

// end cancels all requests at the backend, because the server is shutting down.
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

// mostLooks is roughly how many waiting clients are checked per tick, to see whether they are still
// connected. The number is limited because each check is a system call.
const mostLooks = 1000

// reguess guesses the cost of waiting requests again, because similar requests may have been answered since.
// It also checks whether the clients that have waited for a tick are still connected. In a busy queue, most
// requests wait for less than a tick.
func (h *Handler) reguess(now time.Time) {
	n := 0
	h.waiting.Each(func(x *exchange) {
		n++
		if now.Sub(x.wait.since) >= tick && (h.waited <= mostLooks || rand.IntN(h.waited) < mostLooks) { //nolint:gosec // any choice will do
			x.look()
		}
		x.noticeBroken()
		x.life.Reguess(now)
	})
	h.waited = n
}

// learnEvery is how often the meter gets the number of workers that the gate has found.
const learnEvery = time.Second

// TellWorkers sets a function that is called when the number of the backend's workers has changed. by is the
// source of the number. Call TellWorkers before Drive.
func (h *Handler) TellWorkers(f func(workers int, by string)) { h.learnt.tell = f }

// learn passes the gate's number of workers to the meter and to the function of TellWorkers.
func (h *Handler) learn() {
	n, by := h.gate.SetWorkers(h.Policy().Meter)
	if h.learnt.workers != n && h.learnt.tell != nil {
		h.learnt.tell(n, by)
	}
	h.learnt.workers = n
}

// Measure passes the use of the CPUs since the last call to the limiter and the meter. One goroutine calls
// it, about twice a second.
func (h *Handler) Measure(now time.Time, use cpuaccount.Use) {
	h.pressure.Store(math.Float64bits(use.Pressure))
	h.gate.Measure(now, h.Policy().Meter, use, h.lives)
}

// Pressure returns the part of the time, 0 to 1, in which some process waited for a CPU, according to the last
// measurement. It is negative if there was none.
func (h *Handler) Pressure() float64 { return math.Float64frombits(h.pressure.Load()) }

// lives yields the Life of each request at the backend.
func (h *Handler) lives(yield func(*lifecycle.Life) bool) {
	more := true
	h.running.Each(func(x *exchange) { more = more && yield(&x.life) })
}
