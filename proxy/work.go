package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"tempomat/proxy/spool"
)

// work is what the backend does for a request, as far as it is seen here. It ends
// when the backend has finished, which may be before the client has read the
// answer, or after the client has left.
type work struct {
	late atomic.Bool // it was given up, as it took too long for nobody

	mu     sync.Mutex   // guards the following
	answer *spool.Spool // nil: none
	stream bool         // the answer is one: its end may never come

	patience time.Duration // longest time that the backend works for nobody; 0: no limit
}

func (w *work) setPatience(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patience = d
}

// forget has nobody read the answer.
func (w *work) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer != nil {
		w.answer.Close()
	}
}

// giveUp tells whether the backend has worked for nobody for too long, whose client
// left then; zero: it is there.
func (w *work) giveUp(now, left time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.patience > 0 && !left.IsZero() && now.Sub(left) >= w.patience {
		w.late.Store(true)
	}
	return w.late.Load()
}

// stream tells the limiter that the request holds its worker from now on but
// computes hardly anything.
func (x *exchange) stream(now time.Time) {
	x.work.mu.Lock()
	x.work.stream = true
	x.work.mu.Unlock()
	x.Stays(now)
}

// settle ends the backend's part, once, when it has finished (done) or is given
// up.
func (h *Handler) settle(now time.Time, x *exchange, done bool) {
	x.readLast(now)
	if x.Settle(now, done, x.body.broken.Load()) {
		x.Remove()
		x.endStep()
	}
}
