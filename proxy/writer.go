package proxy

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"tempomat/proxy/http1"
)

const (
	// tailSize is how many bytes at the end of a response are held back until the proxy knows how long to hold
	// the response. Without these bytes, the client can't treat the response as complete. A smaller response is
	// completely held back.
	tailSize = smallPiece
	// deadlineStep is how old a write deadline may be before it is renewed.
	deadlineStep = time.Second
	// serverBuffer is how many bytes of a body the HTTP/1 server buffers, in addition to a header of usual
	// size, before it writes to the client.
	serverBuffer = 2 << 10
)

// writer passes the response on to the client. It stops the meter while the backend waits for a slow client,
// and closes the connection of a client that takes nothing for too long. In cooperative mode, it holds back the
// end of the response.
type writer struct {
	served
	x      *exchange
	tail   []byte // end of the response, which is held back; nil: none
	status int
	bytes  int64

	spooled bool // whether a spool takes the answer, so the backend doesn't wait for the client
}

func (w *writer) WriteHeader(status int) {
	if status < 200 { // the server sends it at once; the meter goes on, because the backend doesn't wait for the client
		w.renew(time.Now())
		w.served.WriteHeader(status)
		return
	}
	w.status = status
	w.x.tellCount()
	if w.x.request.ProtoMajor != 1 {
		w.renew(time.Now()) // the header may have to wait for other streams
	} else if w.x.client.conn.closing.ends() {
		w.x.client.writer.Fields().Set("Connection", "close") // this server shuts down: the next request must go to its successor
	}
	w.served.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
		w.x.tellCount()
	}
	if w.tail == nil {
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

// FlushError is called by http.ResponseController. A flushed answer is a stream: the client gets each part at
// once, and only the end is held back.
func (w *writer) FlushError() error {
	if err := w.releaseTail(); err != nil {
		return err
	}
	return w.unmetered(w.served.FlushError)
}

// release writes the part that was held back.
func (w *writer) release() {
	_ = w.releaseTail() // if that fails, the server notices that the client has disconnected
	if w.tail != nil {
		w.x.handler.pieces.put(w.tail[:tailSize])
		w.tail = nil
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
		w.renew(time.Now()) // after a long header the buffer may be full, so the write may wait for the client
		err = write()       // usually does not wait for the client
	} else {
		err = w.unmetered(write)
	}
	w.bytes += int64(n)
	return n, err
}

// unmetered stops the meter while it calls f, which may wait for the client.
func (w *writer) unmetered(f func() error) error {
	now := time.Now()
	w.renew(now)
	if !w.spooled {
		w.x.life.Pause(now)
		defer func() { w.x.life.Resume(time.Now()) }()
	}
	return f()
}

// renew sets the write deadline, so that the client again has the full time to take the next piece.
func (w *writer) renew(now time.Time) {
	next := now.Add(w.x.policy.Write)
	if next.Sub(w.x.client.conn.deadline) < deadlineStep {
		return
	}
	w.setDeadline(next)
}

func (w *writer) setDeadline(at time.Time) {
	w.x.client.conn.deadline = at
	_ = w.SetWriteDeadline(at) // if it fails, a client that takes nothing is only noticed later
}

// unreadSize is the memory, in bytes, of an HTTP/2 answer that waits for its client, without the pieces of its
// body: 8 KB of stack, and the request.
const unreadSize = 16 << 10

// unread reserves memory for the exchange's answer while it waits for its client. It implements front.Bound.
type unread exchange

func (x *unread) Take() (n int) {
	n = unreadSize + len(x.backend.relay.piece) + cap(x.client.writer.tail)
	if ok, _ := x.handler.heads.Take(x.life.Who.Client, n); !ok {
		return 0
	}
	return n
}

func (x *unread) GiveBack(n int) { x.handler.heads.GiveBack(x.life.Who.Client, n) }

// tellCount adds the fields that show the state of the limits (the key headers in the configuration) to a
// response. If the backend has set one of these fields itself, in any spelling, tellCount adds none.
func (x *exchange) tellCount() {
	if len(x.counted.Fields) == 0 {
		return
	}
	h := x.client.writer.Fields()
	for name := range x.counted.Fields {
		if h.Has(http1.Key(name)) {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.counted.Fields)) {
		for _, value := range x.counted.Fields[name] {
			h.Add(name, value)
		}
	}
}
