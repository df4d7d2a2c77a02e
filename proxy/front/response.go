package front

import (
	"bufio"
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

// Response is a handler's answer to a request. It is an http.ResponseWriter for one goroutine at a time,
// except for Look.
//
// Unlike net/http's, it doesn't guess the content type, and doesn't read the rest of the request's body. If
// the handler has not read the whole body, the connection is closed.
type Response struct {
	exchange
	conn   *conn
	head   http1.RequestHead
	body   body
	memory *[outSize]byte // borrowed memory; nil: none yet
	out    []byte         // part of memory with the bytes to write next
	pieces [3][]byte      // the pieces of one write

	reason  string
	chunked bool
	closes  bool  // whether the connection is closed after this answer
	err     error // first error of a write

	mu        sync.Mutex // guards the field below, the writing of interim answers, and changes of status
	continued bool       // whether a 100 (Continue) was sent
}

// clear empties the Response for reuse. It keeps the memory, but no references.
func (w *Response) clear() {
	*w = Response{exchange: w.exchange}
	w.exchange.clear()
}

// Trailer returns the trailers of the request after its body was read to the end.
func (w *Response) Trailer() http1.Fields { return w.body.chunks.Trailer }

// Relays notes that the answer comes from another server. reason is for the status line; if it is empty, the
// usual reason is sent.
func (w *Response) Relays(reason string) { w.reason = reason }

// Look checks whether the client is still connected. If it isn't, the request's context ends. Look
// may be called concurrently until the handler returns.
func (w *Response) Look() {
	c := w.conn
	if c.hijacked.Load() {
		return
	}
	if teller, ok := c.Conn.(interface{ HasLeft() bool }); ok && teller.HasLeft() || c.raw != nil && hasLeft(c.raw) {
		c.presence.leave()
	}
}

// SetReadDeadline is called by http.ResponseController.
func (w *Response) SetReadDeadline(t time.Time) error { return w.conn.SetReadDeadline(t) }

// SetWriteDeadline is called by http.ResponseController.
func (w *Response) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }

// WriteHeader implements http.ResponseWriter. It sends an interim status (1xx) at once.
func (w *Response) WriteHeader(status int) {
	switch {
	case w.status != 0:
		return
	case status < 200:
		w.inform(status)
		return
	}
	w.mu.Lock()
	w.setStatus(status)
	w.mu.Unlock()
	w.makeHead()
}

// inform sends an interim answer (1xx), unless the client speaks HTTP/1.0.
func (w *Response) inform(status int) {
	if w.head.Minor == 0 {
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
	w.out = append(w.fields.Append(http1.AppendStatus(w.out[:0], status, ""), skips), "\r\n"...)
	_ = w.send(nil) // writing the final answer will return the same error
}

// goOn sends a 100 (Continue), unless it was sent or the final answer has begun.
func (w *Response) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.continued || w.status != 0 {
		return
	}
	w.continued = true
	_, _ = w.conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) // if it fails, reading the body fails as well
}

// Write implements http.ResponseWriter.
func (w *Response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.err != nil:
		return 0, w.err
	case w.conn.hijacked.Load():
		return 0, http.ErrHijacked
	case w.length >= 0 && w.written+int64(len(p)) > w.length && !w.bodyless:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.bodyless {
		return len(p), nil
	}
	if err := w.pass(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass writes a piece of the body, or buffers it.
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

// send writes the buffer, and then a piece of the body.
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

// FlushError is called by http.ResponseController.
func (w *Response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.send(nil)
}

// end sends the end of the answer. It returns false if the connection serves no more requests.
func (w *Response) end() bool {
	if w.conn.hijacked.Load() {
		return false
	}
	if w.status == 0 {
		w.fields.Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
	if w.chunked {
		w.out = http1.AppendLastChunk(w.out, w.trailer)
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

// endsBody reports whether, according to the head, the end of the connection marks the end of the body.
func (w *Response) endsBody() bool {
	return w.status != 0 && w.length < 0 && !w.bodyless && !w.chunked
}

// fail answers for a handler that panicked. A client that gets no answer might think that it had used a closed
// idle connection, and repeat its request.
func (w *Response) fail() {
	if w.conn.hijacked.Load() || w.status != 0 {
		return
	}
	w.mu.Lock()
	w.answer = answer{status: http.StatusInternalServerError}
	w.mu.Unlock()
	w.reason, w.out, w.closes = "", w.out[:0], true
	w.makeHead()
	_ = w.send(nil) // the client may have disconnected
}

// Detach gives the handler the connection and the bytes that were read from it. The handler must close the
// connection. Earlier deadlines are cleared.
func (w *Response) Detach() (net.Conn, []byte, error) {
	switch {
	case w.conn.hijacked.Load():
		return nil, nil, http.ErrHijacked
	case w.status != 0, w.body.isUnread():
		return nil, nil, errors.New("the connection is in the middle of a message")
	}
	c := w.conn
	buffered := append([]byte(nil), c.in.Take(c.in.Buffered())...)
	w.keeps = true
	c.hijacked.Store(true)
	// An upgraded connection may stay open for hours without traffic, and its client can reconnect. It
	// therefore counts as idle: if there are too many connections, it is closed, and a new one isn't rejected.
	c.place.Idle(time.Now()) // false means that it was closed in the meantime, which its next use reports
	c.Remove()
	_ = c.SetDeadline(time.Time{}) // it fails only if the connection is closed, which its next use reports
	return c.Conn, buffered, nil
}

// borrow borrows memory for the buffer.
func (w *Response) borrow() {
	if w.memory == nil {
		w.memory = w.conn.server.memory.out.Get().(*[outSize]byte)
		w.out = w.memory[:0]
	}
}

// giveBack returns the memory of the buffer.
func (w *Response) giveBack() {
	if w.memory != nil {
		w.conn.server.memory.out.Put(w.memory)
		w.memory, w.out = nil, nil
	}
}

// makeHead chooses how the end of the body is marked, and whether the connection stays open, and buffers the head.
func (w *Response) makeHead() {
	w.borrow()
	w.chunked = w.length < 0 && !w.bodyless && w.head.Minor > 0
	if w.endsBody() {
		w.closes = true
		w.conn.resets(true)
	}
	if strings.EqualFold(w.fields.Get("Connection"), "close") || w.body.isUnread() {
		w.closes = true
	}
	b := w.fields.Append(http1.AppendStatus(w.out, w.status, w.reason), skips)
	if !w.fields.Has("Date") {
		b = http1.AppendField(b, "Date", w.conn.server.memory.now())
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
	case w.head.Minor == 0:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	if w.fields.Has("Upgrade") {
		b = append(b, "Connection: Upgrade\r\n"...) // required together with Upgrade (RFC 9110, 7.8)
	}
	w.out = append(b, "\r\n"...)
}

// skips reports whether a field of the handler is left out, because the Response itself frames the message and
// controls the connection.
func skips(key string) bool {
	return key == "Content-Length" || key == "Transfer-Encoding" || key == "Connection"
}

// giveAll writes pieces to the client. Without TLS it writes all of them in one system call if
// there is room. With TLS, which makes a system call for each record, it fills the records. It may change the slice.
func (c *conn) giveAll(pieces [][]byte) error {
	if c.raw == nil || c.tls != nil {
		if len(pieces) == 1 {
			_, err := c.Write(pieces[0])
			return err
		}
		b := c.server.memory.records.Get().(*bufio.Writer)
		defer c.server.memory.records.Put(b)
		b.Reset(c)
		for _, p := range pieces {
			_, _ = b.Write(p) // Flush returns the error
		}
		err := b.Flush()
		b.Reset(nil)
		return err
	}
	return c.giveRaw(pieces)
}

// giveRaw writes pieces to the connection below TLS. After an error, the first one is what was not written of it.
func (c *conn) giveRaw(pieces [][]byte) error {
	c.gives, c.gave = pieces, nil
	err := c.raw.Write(c.give)
	c.gives = nil
	if err == nil {
		err = c.gave
	}
	return err
}

// giveStep writes as much as it can without waiting. It returns false if some bytes are left.
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

// written removes n bytes, which were written, from c.gives.
func (c *conn) written(n int) {
	for len(c.gives) > 0 && n >= len(c.gives[0]) {
		n -= len(c.gives[0])
		c.gives = c.gives[1:]
	}
	if n > 0 {
		c.gives[0] = c.gives[0][n:]
	}
}
