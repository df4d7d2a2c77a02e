package front

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"tempomat/proxy/http1"
	"tempomat/proxy/nonblock"
)

// Response is how a handler answers a request. It is an http.ResponseWriter, for one
// goroutine at a time except for Look.
//
// Unlike package net/http's it does not guess the type of the content, and does not read the
// rest of the request's body: if the handler did not read that to its end, the connection is
// closed.
type Response struct {
	conn   *conn
	r      *request
	memory *[outSize]byte // nil: none is needed yet
	out    []byte         // lies in it: what is to be written, or the body before its head is made
	pieces [3][]byte      // of one write

	status   int // 0: unknown yet
	reason   string
	relays   bool  // see Relays
	length   int64 // announced length of the body; negative: unknown
	written  int64
	headMade bool
	bodyless bool
	chunked  bool
	closes   bool // the connection, after it
	hijacked bool
	keeps    bool  // the request outlives its answer
	err      error // of writing

	mu        sync.Mutex // guards the following, and what is written before the head
	continued bool       // the client need not be told to go on with its body
}

func (w *Response) begin(c *conn, r *request) {
	w.conn, w.r, w.length, w.closes = c, r, -1, !r.head.KeepAlive // the rest is empty
	w.keeps = r.head.Framing != http1.Empty                       // who reads the body may do so for a moment longer
}

// Header implements http.ResponseWriter, for handlers of package net/http.
func (w *Response) Header() http.Header { return w.r.answer.plain() }

// Fields are the answer's header, which the handler fills before WriteHeader.
func (w *Response) Fields() *http1.Fields { return &w.r.answer.Fields }

// SetTrailer sets what follows the body. It may be called until the handler returns.
func (w *Response) SetTrailer(trailer http1.Fields) { w.r.answer.trailer = trailer }

// Keep keeps the request and its header valid after the handler has returned.
func (w *Response) Keep() { w.keeps = true }

// Asked are the fields of the request's head, as the client wrote them. They are the handler's until it
// returns, or for good after Keep.
func (w *Response) Asked() *http1.Fields { return &w.r.fields }

// HeadSize is how many bytes the head has that Asked keeps, without what its lines take as such.
func (w *Response) HeadSize() int { return w.r.head.Size }

// Trailer is what came after the request's body, once that was read to its end.
func (w *Response) Trailer() http1.Fields { return w.r.body.chunks.Trailer }

// Relays says that the answer is another server's, and what its status line says for people; empty: the
// usual. If it has no length, its body ends as it says itself, however near its end may be.
func (w *Response) Relays(reason string) { w.reason, w.relays = reason, true }

// Look looks whether the client is still there; if not, the request's context ends. It
// may be called concurrently, until the handler returns.
func (w *Response) Look() { w.conn.lookAt() }

// Streams is how many requests the connection has under way.
func (w *Response) Streams() int { return 1 }

// SetReadDeadline is for http.ResponseController.
func (w *Response) SetReadDeadline(t time.Time) error { return w.conn.SetReadDeadline(t) }

// SetWriteDeadline is for http.ResponseController.
func (w *Response) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// WriteHeader implements http.ResponseWriter. One of an answer before the final one (1xx)
// is sent at once.
func (w *Response) WriteHeader(status int) {
	switch {
	case w.status != 0:
		return
	case status < 200:
		w.inform(status)
		return
	}
	w.status = status
	w.r.answer.merge()
	w.bodyless = w.r.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	if w.length = w.r.answer.length(); w.length >= 0 || w.bodyless || w.relays { // it is known how the body ends
		w.makeHead()
	}
}

// inform sends an answer before the final one, to a client that knows such.
func (w *Response) inform(status int) {
	if w.r.head.Minor == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if status == http.StatusContinue {
		if w.continued {
			return
		}
		w.continued = true
	}
	w.borrow()
	before := w.r.answer.Fields
	w.r.answer.merge()
	w.out = w.r.answer.Append(http1.AppendStatus(w.out[:0], status, ""), w.skips)
	w.r.answer.Fields = before
	w.out = append(w.out, "\r\n"...)
	_ = w.send(nil) // it comes again as the answer is written
}

// goOn tells the client to go on with its body, unless that was done or the final answer
// is on its way.
func (w *Response) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.continued || w.headMade {
		return
	}
	w.continued = true
	_, _ = w.conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) // it shows as the body is read
}

// Write implements http.ResponseWriter.
func (w *Response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case w.hijacked:
		return 0, http.ErrHijacked
	case w.length >= 0 && w.written+int64(len(p)) > w.length && !w.bodyless:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if !w.headMade {
		if w.length < 0 && !w.bodyless && w.written <= outSize { // its end may be near
			w.borrow()
			w.out = append(w.out, p...)
			return len(p), nil
		}
		w.makeHead()
	}
	if w.bodyless {
		return len(p), nil
	}
	if err := w.pass(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass writes a piece of the body, or keeps it with what is to be written.
func (w *Response) pass(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	w.borrow()
	room := cap(w.out) - len(w.out)
	switch {
	case !w.chunked && len(p) <= room:
		w.out = append(w.out, p...)
		return nil
	case !w.chunked:
		return w.send(p)
	case room < http1.ChunkRoom:
		if err := w.send(nil); err != nil {
			return err
		}
		room = cap(w.out)
	}
	w.out = http1.AppendSize(w.out, len(p))
	if len(p)+http1.ChunkRoom+2 <= room {
		w.out = append(append(w.out, p...), "\r\n"...)
		return nil
	}
	return w.send(p)
}

// send writes what is to be written, and a piece of the body after it.
func (w *Response) send(p []byte) error {
	if w.err != nil {
		return w.err
	}
	n := 0
	add := func(b []byte) {
		if len(b) > 0 {
			w.pieces[n] = b
			n++
		}
	}
	add(w.out)
	add(p)
	if w.chunked && len(p) > 0 {
		add([]byte(lineEnd))
	}
	if n == 0 {
		return nil
	}
	w.err = w.conn.giveAll(w.pieces[:n])
	clear(w.pieces[:])
	w.out = w.out[:0]
	if w.err != nil {
		w.conn.presence.leave()
	}
	return w.err
}

const lineEnd = "\r\n"

// FlushError is for http.ResponseController.
func (w *Response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.headMade {
		w.makeHead()
	}
	return w.send(nil)
}

// end sends the end of the answer. It returns false if the connection serves no other
// request.
func (w *Response) end() bool {
	if w.hijacked {
		return false
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.headMade {
		if w.length < 0 && !w.bodyless {
			w.length = w.written
		}
		w.makeHead()
	}
	if w.chunked {
		w.out = http1.AppendLastChunk(w.out, w.r.answer.trailer)
	}
	complete := w.bodyless || w.length < 0 || w.written == w.length
	if w.send(nil) != nil {
		return false
	}
	if w.endsBody() {
		w.conn.resets(false)
	}
	return complete && !w.closes
}

// endsBody reports whether, according to the head, the end of the connection ends the body.
func (w *Response) endsBody() bool {
	return w.headMade && w.length < 0 && !w.bodyless && !w.chunked
}

// fail answers instead of a handler that panicked. A client that gets nothing may take the
// connection for one that was closed as it waited, and send its request once more.
func (w *Response) fail() {
	if w.hijacked || w.headMade {
		return
	}
	w.r.answer = answer{}
	w.status, w.length, w.written, w.bodyless = http.StatusInternalServerError, 0, 0, false
	w.reason, w.out, w.closes = "", w.out[:0], true
	w.makeHead()
	_ = w.send(nil) // the client has gone
}

// Detach gives the handler the connection, which it must close, and what was read from it. A
// partly written answer is not sent. Earlier deadlines are cleared.
func (w *Response) Detach() (net.Conn, []byte, error) {
	switch {
	case w.hijacked:
		return nil, nil, http.ErrHijacked
	case w.headMade, w.r.body.isUnread():
		return nil, nil, errors.New("the connection is in the middle of a message")
	}
	c := w.conn
	buffered := append([]byte(nil), c.in.Take(c.in.Buffered())...)
	w.hijacked, w.keeps = true, true
	c.hijacked.Store(true)
	if c.place != nil {
		// It may be open for hours without traffic, and its client opens it again: if there are
		// too many connections, it is closed before new ones are kept out.
		c.place.Idle(time.Now()) // one that was closed in the meantime says so when it is read
	}
	c.Remove()
	_ = c.SetDeadline(time.Time{}) // a connection that is closed says so when it is used
	return c.Conn, buffered, nil
}

// borrow gets memory for what is to be written.
func (w *Response) borrow() {
	if w.memory == nil {
		w.memory = w.conn.server.memory.out.Get().(*[outSize]byte)
		w.out = w.memory[:0]
	}
}

// giveBack returns it.
func (w *Response) giveBack() {
	if w.memory != nil {
		w.conn.server.memory.out.Put(w.memory)
		w.memory, w.out = nil, nil
	}
}

// makeHead writes the head in front of what there is of the body. How the body ends is
// known then.
func (w *Response) makeHead() {
	w.mu.Lock()
	w.headMade = true
	w.mu.Unlock()
	body, memory := w.out, w.memory
	w.memory, w.out = nil, nil
	w.borrow()
	w.decide()
	h := &w.r.answer
	b := h.Append(http1.AppendStatus(w.out, w.status, w.reason), w.skips)
	if !h.Has("Date") {
		b = w.conn.server.dates.append(b)
	}
	switch {
	case w.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case w.length >= 0 && w.status != http.StatusNoContent:
		b = http1.AppendLength(b, w.length)
	}
	switch {
	case w.closes:
		b = append(b, "Connection: close\r\n"...)
	case w.r.head.Minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	if h.Has("Upgrade") {
		b = append(b, "Connection: Upgrade\r\n"...) // Upgrade requires this (RFC 9110, 7.8)
	}
	w.out = append(b, "\r\n"...)
	if len(body) > 0 {
		_ = w.pass(body) // an error comes again
	}
	if memory != nil {
		w.conn.server.memory.out.Put(memory)
	}
}

// decide finds out how the body will end, and whether the connection goes on.
func (w *Response) decide() {
	w.chunked = w.length < 0 && !w.bodyless && w.r.head.Minor > 0
	if w.endsBody() {
		w.closes = true
		w.conn.resets(true)
	}
	if strings.EqualFold(w.r.answer.Get("Connection"), "close") || w.r.body.isUnread() {
		w.closes = true
	}
}

// skips tells which fields are not to be written as the handler has them: what tells how
// the message is framed and what becomes of the connection.
func (w *Response) skips(key string) bool {
	switch key {
	case "Content-Length", "Transfer-Encoding", "Connection":
		return true
	case "Trailer":
		return !w.chunked
	}
	return false
}

// giveAll writes pieces to the client, without TLS in one call if there is room for all. It
// may change them.
func (c *conn) giveAll(pieces [][]byte) error {
	if c.raw == nil || c.tls != nil {
		for _, p := range pieces {
			if _, err := c.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	if c.give == nil {
		c.give = c.giveStep
	}
	c.gives, c.gave = pieces, nil
	err := c.raw.Write(c.give)
	c.gives = nil
	if err == nil {
		err = c.gave
	}
	return err
}

// giveStep writes as much as it can without waiting. It returns false if there is more.
func (c *conn) giveStep(fd uintptr) (done bool) {
	for len(c.gives) > 0 {
		n, err := nonblock.WriteAll(fd, c.gives)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			c.gave = os.NewSyscallError("write", err)
			return true
		}
		c.written(n)
	}
	return true
}

// written takes in that so many bytes of what is to be written are.
func (c *conn) written(n int) {
	for len(c.gives) > 0 && n >= len(c.gives[0]) {
		n -= len(c.gives[0])
		c.gives = c.gives[1:]
	}
	if n > 0 {
		c.gives[0] = c.gives[0][n:]
	}
}
