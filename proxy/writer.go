package proxy

import (
	"net/http"
	"sync"
	"time"
)

const (
	// tailSize is how much of a response is kept back until it is known how long
	// to hold it. A smaller one is held whole, of a greater one the client gets
	// all but the end. Enough to keep a client from taking it for complete.
	tailSize = 4 << 10
	// deadlineStep is how stale a write deadline may be before it is renewed.
	deadlineStep = time.Second
	// serverBuffer is how much of a response the server for HTTP/1 takes without writing
	// to the client, together with a head of the usual size.
	serverBuffer = 2 << 10
)

// writer passes the response on to the client, stops the meter while the backend
// waits for a client that is slow to take it, gives up on one that takes nothing, and keeps the end of
// the response back where that may have to be held.
type writer struct {
	served
	x      *exchange
	tails  *sync.Pool // not nil: keep the tail back
	kept   *[tailSize]byte
	tail   []byte // the part of kept that is in use
	status int
	bytes  int64

	spooled bool // the backend does not wait for this client
}

// keepTail has the writer keep the end of the response back, in a buffer of the
// pool.
func (w *writer) keepTail(tails *sync.Pool) {
	w.tails = tails
	w.kept = tails.Get().(*[tailSize]byte)
	w.tail = w.kept[:0]
}

func (w *writer) WriteHeader(status int) {
	if status < 200 { // it is sent at once
		_ = w.unmetered(func() error { w.served.WriteHeader(status); return nil })
		return
	}
	if !w.x.takesStream() {
		abort() // the stream is closed: what was executed must not be told to come again
	}
	w.status = status
	w.x.tellCount()
	if w.x.request.ProtoMajor == 1 && w.x.client.conn.closing.ends() {
		w.x.client.writer.Fields().Set("Connection", "close") // the client's next request must go to the next process
	}
	w.served.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
		w.x.tellCount()
	}
	if w.tails == nil {
		return w.pass(p)
	}
	if len(w.tail)+len(p) <= tailSize {
		w.tail = append(w.tail, p...)
		return len(p), nil
	}
	if err := w.releaseTail(); err != nil {
		return 0, err
	}
	cut := max(0, len(p)-tailSize)
	n, err := w.pass(p[:cut])
	if err != nil {
		return n, err
	}
	w.tail = append(w.tail, p[cut:]...)
	return len(p), nil
}

// FlushError is for http.ResponseController. A flushed answer is a stream: its client sees all
// of it at once, and only the end is held.
func (w *writer) FlushError() error {
	if err := w.releaseTail(); err != nil {
		return err
	}
	return w.unmetered(w.served.FlushError)
}

// release lets go of what was kept back, and has the server send the end.
func (w *writer) release() {
	_ = w.releaseTail() // the client has gone: the server sees for itself
	w.renew(time.Now())
	if w.tails != nil {
		w.tails.Put(w.kept)
		w.tails, w.kept, w.tail = nil, nil, nil
	}
}

func (w *writer) releaseTail() error {
	if len(w.tail) == 0 {
		return nil
	}
	_, err := w.pass(w.tail)
	w.tail = w.tail[:0]
	return err
}

func (w *writer) pass(p []byte) (n int, err error) {
	if len(p) == 0 {
		return len(p), nil
	}
	write := func() error {
		n, err = w.served.Write(p)
		return err
	}
	if w.x.request.ProtoMajor == 1 && w.bytes+int64(len(p)) <= serverBuffer {
		w.renew(time.Now()) // a long head leaves no room for it
		err = write()       // does not wait for the client
	} else {
		err = w.unmetered(write)
	}
	w.bytes += int64(n)
	return n, err
}

// unmetered does something that may wait for the client.
func (w *writer) unmetered(f func() error) error {
	now := time.Now()
	w.renew(now)
	if !w.spooled {
		w.x.life.Pause(now)
		defer func() { w.x.life.Resume(time.Now()) }()
	}
	return f()
}

// renew gives the client its time again.
func (w *writer) renew(now time.Time) {
	next := now.Add(w.x.policy.Write)
	if next.Sub(w.x.client.conn.deadline) < deadlineStep {
		return
	}
	w.setDeadline(next)
}

func (w *writer) setDeadline(at time.Time) {
	w.x.client.conn.deadline = at
	_ = w.SetWriteDeadline(at) // without one it only waits longer
}
