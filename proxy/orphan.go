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

// forget drops the spool of an answer that no client reads any more. It doesn't wait for the disk, because Drive calls
// it.
func (w *work) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer != nil {
		go w.answer.Close()
	}
}

// stream tells the limiter that from now on the request holds its worker but computes little.
func (x *exchange) stream(now time.Time) {
	x.backend.work.mu.Lock()
	x.backend.work.stream = true
	x.backend.work.mu.Unlock()
	x.life.Stays(now)
}

// settle ends the backend's part of a request: the backend has finished (done), or the proxy has given up
// waiting for it. Only the first call has an effect.
func (h *Handler) settle(now time.Time, x *exchange, done bool) {
	if x.backend.settled.Swap(true) {
		return
	}
	x.readLast(now)
	if x.life.Settle(now, done, x.client.body.broken.Load()) {
		x.listed.Remove()
		x.endStep()
	}
}

const (
	// mostAbandoned is how many bytes of an answer are read after its client has disconnected, so that the
	// backend can finish. Then the connection is closed; a backend notices this when it writes.
	mostAbandoned = 64 << 10
	// mostLinger is the longest time that a request keeps its place after the proxy has given up waiting for
	// the backend. After this time, all places of a backend that has recovered are free again.
	mostLinger = 10 * time.Second
)

// errAbandoned ends an answer that is too long to be read to its end after its client has disconnected.
var errAbandoned = errors.New("the client has disconnected")

// orphan notes that the client has disconnected while the backend works on the request. The backend continues
// to work: PHP notices only when it sends something.
func (x *exchange) orphan(now time.Time) {
	if x.life.Orphan(now) {
		x.backend.work.forget()
	}
}

// gone reports whether the client disconnected while the backend worked. If this is the first sign of that,
// gone marks the request as abandoned.
func (x *exchange) gone() bool {
	if x.request.Context().Err() != nil {
		x.orphan(time.Now())
	}
	return x.life.IsOrphan()
}

// drain reads the rest of an answer whose client has disconnected, to learn when the backend has finished. It
// then returns io.EOF. If the rest is too long, drain closes the backend's connection.
func (x *exchange) drain(answer io.Reader, buf []byte) error {
	most := mostAbandoned
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
	return errAbandoned
}

func (w *work) isStream() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream
}

// watch notices that the client has disconnected. It then cancels the request at the backend if the backend
// works on it for too long or hasn't even accepted the connection, or if the server is shutting down
// and doesn't wait for the request.
func (x *exchange) watch(now time.Time) {
	x.look()
	if x.request.Context().Err() != nil {
		x.orphan(now)
	}
	left := x.life.Left()
	nobody := !left.IsZero()
	if nobody && now.Sub(left) >= x.policy.Upstream.timeout {
		x.backend.work.late.Store(true)
	}
	if x.backend.work.late.Load() || nobody && (x.client.conn.closing.ends() || !x.life.Who.Own && x.client.conn.call.IsOpening()) {
		x.client.conn.call.Cancel()
	}
}

// linger keeps a request's place, in mode fair, although the proxy has given up waiting for the backend.
// The proxy can't see when the backend stops working on the request, and a request that has run for so
// long will probably run for the same time once more. linger returns false if there is no place to keep, because the
// backend never got the request.
func (h *Handler) linger(now time.Time, x *exchange) bool {
	if x.log.outcome != telemetry.BackendSlow || x.policy.Limits.Mode != limiter.Fair || !x.client.conn.call.WasAsked() || !x.life.Linger(now) {
		return false
	}
	x.listed.Exclusively(func() { x.backend.lingers, x.backend.until = true, now.Add(min(now.Sub(x.backend.since), mostLinger)) })
	x.endStep() // the proxy can't see when the process gets its next request
	return true
}

// expire frees the place of a request that lingers.
func (h *Handler) expire(now time.Time, x *exchange) {
	x.listed.Remove()
	x.life.Expire(now)
}

// survive is deferred in goroutines that no server recovers, because a panic in them would end the process. It
// logs the panic and turns it into an error.
func survive(log *zap.Logger, err *error) {
	if p := recover(); p != nil {
		log.Error("a goroutine panicked", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
		*err = errors.New("a goroutine panicked")
	}
}

// abort ends an exchange in the middle of its answer, in a way that shows the client that the answer
// is incomplete.
func abort() { panic(http.ErrAbortHandler) }

// abandon ends, without an answer, an exchange whose client has disconnected. If the client were still
// connected, it could mistake an empty answer for one from the backend.
func (x *exchange) abandon() {
	if !x.backend.since.IsZero() {
		x.orphan(time.Now())
	}
	x.log.outcome = telemetry.ClientGone
	abort()
}

// isOwn reports whether the request is a call of the site to itself, such as WordPress's to wp-cron.php: its
// client's address is the one at which this machine accepted the connection. Many such clients disconnect at once,
// because they don't need the answer. Loopback addresses and forwarded requests don't count, because a proxy on
// this machine uses them for visitors.
func (x *exchange) isOwn() bool {
	if local := x.client.conn.local; !local.IsValid() || local != x.life.Who.Client {
		return false
	}
	for name := range x.request.Header {
		if tellsOrigin(name) {
			return false
		}
	}
	return true
}

// look checks whether the client is still connected.
func (x *exchange) look() {
	x.client.writer.Look()
}
