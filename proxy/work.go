package proxy

import (
	"sync"
	"time"

	"tempomat/proxy/spool"
)

// work is what the backend does for a request. It ends when the backend has
// finished, which may be before the client has read the answer, or after the
// client has left.
type work struct {
	mu     sync.Mutex   // guards the following
	over   bool         // settled
	left   time.Time    // when the client left before that; zero: it is there
	late   bool         // it was given up, as it took too long for nobody
	answer *spool.Spool // nil: none
	stream bool         // the answer is one: its end may never come

	patience time.Duration // longest time that the backend works for nobody; 0: no limit
}

func (w *work) setPatience(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = d
}

// leastStream is how long a stream holds its worker at least, as far as anybody who asks for the
// like of it is concerned.
const leastStream = time.Second

// stream tells the limiter that the request holds its worker from now on but
// computes hardly anything.
func (x *exchange) stream(now time.Time) {
	x.work.mu.Lock()
	x.work.stream = true
	x.work.mu.Unlock()
	x.span.Pause(now)
	if x.ticket != nil {
		x.handler.guess.AtLeast(now, x.kind(), 0, leastStream)
		x.handler.limiter.Hold(now, x.ticket)
	}
}

// settle replaces the guess by the cost, once, when the backend has finished
// (done) or is given up.
func (h *Handler) settle(now time.Time, x *exchange, done bool) {
	x.work.mu.Lock()
	first := !x.work.over
	x.work.over = true
	orphan := !x.work.left.IsZero()
	x.work.mu.Unlock()
	if !first {
		return
	}
	h.running.remove(x)
	x.cost = x.span.End(now)
	if x.ticket == nil {
		return
	}
	if done {
		h.guess.Learn(now, x.kind(), x.cost, x.span.Idle())
	} else if orphan || x.body.broken.Load() {
		x.cost = max(x.cost, x.guess) // it may go on working for nobody
	}
	x.holdFor = h.limiter.Settle(now, x.ticket, x.cost)
}
