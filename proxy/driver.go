package proxy

import (
	"context"
	"time"
)

// tick is how often running requests are charged on. It bounds how much longer
// a misjudged request goes unnoticed, and what the meter's look at the crowd
// misses.
const tick = 100 * time.Millisecond

// Drive tells the limiter the time until the context ends: it releases what
// waits when it is due, and charges on what runs. The Handler needs exactly one
// goroutine that does this.
func (h *Handler) Drive(ctx context.Context) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			now := time.Now()
			h.progress(now)
			h.reguess(now)
		case <-due.C:
		case <-h.limiter.Due():
		}
		now := time.Now()
		if next := h.limiter.Advance(now); next.IsZero() {
			due.Stop()
		} else {
			due.Reset(next.Sub(now))
		}
	}
}

// progress charges on what runs.
func (h *Handler) progress(now time.Time) {
	var spent []*exchange
	h.running.each(func(x *exchange) {
		if x.ticket == nil {
			return
		}
		soFar := x.span.SoFar(now)
		if soFar > x.guess {
			h.guess.AtLeast(now, x.kind(), soFar)
		}
		h.limiter.Progress(now, x.ticket, soFar)
		if x.ghost && soFar >= x.guess {
			spent = append(spent, x)
		}
	})
	for _, x := range spent {
		h.lay(now, x)
	}
}

// reguess looks again at what waits, as answers to its kind may have come since.
func (h *Handler) reguess(now time.Time) {
	h.waiting.each(func(x *exchange) {
		if cost, sure := h.guess.Of(now, x.kind()); sure {
			h.limiter.Reguess(now, x.ticket, cost)
		}
	})
}
