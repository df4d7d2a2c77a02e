package proxy

import (
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// bound limits how long the backend may work after the client disconnected.
func (w *work) bound(longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = longest
}

// forget marks an answer that no client reads any more.
func (w *work) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer != nil {
		w.answer.Close()
	}
}

// isLate reports whether the backend has worked for too long since the client disconnected at
// that time; zero: it is still connected.
func (w *work) isLate(now, left time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.longest > 0 && !left.IsZero() && now.Sub(left) >= w.longest {
		w.late.Store(true)
	}
	return w.late.Load()
}

// stream tells the limiter that the request holds its worker from now on but computes little.
func (x *exchange) stream(now time.Time) {
	x.backend.work.mu.Lock()
	x.backend.work.stream = true
	x.backend.work.mu.Unlock()
	x.life.Stays(now)
}

// settle ends the backend's part, once, when it has finished (done) or is given
// up.
func (h *Handler) settle(now time.Time, x *exchange, done bool) {
	x.readLast(now)
	if x.life.Settle(now, done, x.client.body.broken.Load()) {
		x.listed.Remove()
		x.endStep()
	}
}

const (
	// mostForNobody is how many bytes of an answer are read after its client disconnected, so
	// the backend can finish. A backend that still writes then notices that its connection is
	// closed, and ends.
	mostForNobody = 64 << 10
	// mostLinger bounds how long a request keeps its place though the backend was
	// given up. A backend that comes back after a failure has its places back
	// after that.
	mostLinger = 10 * time.Second
)

// errForNobody ends an answer that is too long to be read without a client.
var errForNobody = errors.New("the client has left")

// orphan notes that the client has left while the backend works on the request: PHP notices
// only when it sends something.
func (x *exchange) orphan(now time.Time) {
	if x.life.Orphan(now) {
		x.backend.work.forget()
	}
}

// gone reports whether the client left while the backend worked: what has just been seen to have
// no client becomes an orphan.
func (x *exchange) gone() bool {
	if x.request.Context().Err() != nil {
		x.orphan(time.Now())
	}
	return x.life.IsOrphan()
}

// drain reads the rest of an answer whose client disconnected, to learn when the backend has
// finished: then it returns io.EOF. Otherwise the backend's connection is closed.
func (x *exchange) drain(answer io.Reader, buf []byte) error {
	most := mostForNobody
	if x.backend.work.isStream() {
		most = 0
	}
	for n := 0; n == 0 || n < most; {
		got, err := answer.Read(buf)
		if n += got; err != nil {
			return err
		}
	}
	x.client.conn.call.Cancel()
	return errForNobody
}

func (w *work) isStream() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream
}

// watch notices that the client disconnected, and gives up a backend that works for too long
// after that, or when the server ends. A backend that has not accepted the connection yet has
// nothing to work on.
func (x *exchange) watch(now time.Time) {
	x.look()
	if x.request.Context().Err() != nil {
		x.orphan(now)
	}
	left := x.life.Left()
	nobody := !left.IsZero()
	if x.backend.work.isLate(now, left) || x.client.conn.closing.givesUp(nobody) || nobody && x.client.conn.call.IsOpening() {
		x.client.conn.call.Cancel()
	}
}

// linger keeps a request's place, in mode fair, although the backend was given up, because its
// end can't be seen: a request that ran for so long most likely runs for as long again. It
// returns false if it keeps none: without a connection nothing runs.
func (h *Handler) linger(now time.Time, x *exchange) bool {
	if x.log.outcome != telemetry.BackendSlow || x.policy.Limits.Mode != limiter.Fair || !x.client.conn.call.WasAsked() || !x.life.Linger(now) {
		return false
	}
	x.listed.Exclusively(func() { x.backend.lingers, x.backend.until = true, now.Add(min(now.Sub(x.backend.since), mostLinger)) })
	x.endStep() // it can't be seen when the process gets its next request
	return true
}

// expire ends a request that lingers.
func (h *Handler) expire(now time.Time, x *exchange) {
	x.listed.Remove()
	x.life.Expire(now)
}

// survive is deferred in a goroutine next to that of a connection, whose panic would end the process:
// it is logged, and becomes an error.
func survive(log *zap.Logger, err *error) {
	if p := recover(); p != nil {
		log.Error("a goroutine failed", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		*err = errors.New("a goroutine failed")
	}
}

// abort ends an exchange in the middle of its answer: the client notices that
// it is not complete.
func abort() { panic(http.ErrAbortHandler) }

// abandon ends an exchange whose client disconnected, without an answer: if the client is there
// after all, it must not mistake an empty answer for the backend's.
func (x *exchange) abandon() {
	if !x.backend.since.IsZero() {
		x.orphan(time.Now())
	}
	x.log.outcome = telemetry.ClientGone
	abort()
}
