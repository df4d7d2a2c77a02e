package backend

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/proxy/http1"
)

// Request is a request to the backend.
type Request struct {
	Method string
	// Target, Host and Fields are sent unchanged. Host may be empty.
	Target, Host string
	Fields       http1.Fields
	// Body is the body, or nil. The Pool closes it when it is no longer needed, and may read it for a moment
	// after the answer is complete. If a Read fails, the Pool closes the sending side of the connection and
	// still waits for the backend's answer.
	Body io.ReadCloser
	// Length is the length of the body; negative: unknown. Ready reports whether the body can be read without
	// waiting.
	Length int64
	Ready  bool
	// Trailer returns the trailers of a body of unknown length, after the end of the body.
	Trailer func() http1.Fields
	Hints   Hints
}

// Hints receives interim answers (1xx; RFC 9110, 15.2).
type Hints interface {
	Hint(status int, fields http1.Fields)
}

const (
	// mostHints is the largest number of interim answers to a request.
	mostHints = 100
	// smallBody is the size of the largest body that is sent together with the head, in bytes.
	smallBody = 4 << 10
)

// errUnasked means that the backend sent bytes without a request.
var errUnasked = errors.New("the backend sent bytes without a request")

// Do sends a request and returns the answer as soon as its head has arrived. The caller must read the Answer
// to its end or close it. If the call was cancelled, the error is context.Canceled. Connection errors come
// from packages net and os.
func (p *Pool) Do(call *Call, r *Request) (*Answer, error) {
	c := p.newestIdle(r)
	for {
		reused := c != nil
		if !reused {
			var err error
			if c, err = call.dial(p.dial); err != nil {
				r.drop()
				return nil, call.why(err)
			}
		}
		if !call.use(c) {
			r.drop()
			return nil, context.Canceled
		}
		a, nothing, err := p.ask(call, c, r, reused)
		if err == nil {
			return a, nil
		}
		call.use(nil)
		if errors.Is(err, errStale) {
			_ = c.Close()
			c = p.newestIdle(r)
			continue
		}
		_ = c.Close() // the answer is malformed or missing, so the connection can't be used again
		if !reused || !nothing || !r.mayBeRepeated() || call.cancelled.Load() {
			r.drop()
			return nil, call.why(err)
		}
		c = nil
	}
}

// why returns the error of a request: context.Canceled if the request was cancelled.
func (c *Call) why(err error) error {
	if c.cancelled.Load() {
		return context.Canceled
	}
	return err
}

// mayBeRepeated reports whether the request can be sent twice without harm.
func (r *Request) mayBeRepeated() bool {
	if r.Body != nil {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// mayBeUnread reports whether a backend that sends this status may leave the request's body unread. A backend
// may do so because most servers expect no body for the method (RFC 9110, 9.3.1), because a redirect comes from
// the server and not from the application, or because it refuses the request. Some backends would read such a
// body as a request, and the next client would get its answer. Others wait for a moment, and then close the
// connection when the next request arrives.
func (r *Request) mayBeUnread(status int) bool {
	return r.Body != nil && (status >= http.StatusMultipleChoices || ExpectsNoBody(r.Method))
}

// ExpectsNoBody reports whether most servers expect no body for a method, so they may not read one.
func ExpectsNoBody(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// drop closes the body.
func (r *Request) drop() {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// ask sends a request over a connection and waits for the head of the answer. After an error, the result nothing
// reports that no answer began: the connection ended before its first byte, or the bytes aren't one. On a reused
// connection they are the rest of the earlier answer, which was longer than its Content-Length.
func (p *Pool) ask(call *Call, c *Conn, r *Request, reused bool) (a *Answer, nothing bool, err error) {
	m := p.memory.Get().(*[memorySize]byte)
	a = p.answers.Get().(*Answer)
	a.pool, a.call, a.conn, a.memory, a.end = p, call, c, m, nil
	n, failed, err := p.send(a, r, m[:], reused)
	a.buffer.Resume(c, m[:], n)
	if err == nil {
		err = a.receive(r)
	}
	if err == nil {
		return a, false, nil
	}
	// After a timeout the backend may still be working on the request, and after a malformed answer it has done so.
	nothing = a.buffer.Buffered() == 0 && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, http1.ErrMalformed)
	nothing = !a.hinted && (nothing || errors.Is(err, http1.ErrNoStatus))
	a.upload.end()
	p.memory.Put(m)
	a.free()
	if nothing && failed != nil {
		err = failed // the backend closed the connection without an answer, so the failed write is the cause
	}
	return nil, nothing, err
}

// send sends the head, and the part of the body that is ready. A goroutine sends the rest. If send has also
// read the beginning of the answer, memory[:n] holds it.
func (p *Pool) send(a *Answer, r *Request, memory []byte, reused bool) (n int, sending, reading error) {
	length := r.Length
	if r.Body == nil {
		length = 0
	}
	head := http1.Request{
		Method: r.Method, Target: r.Target, Host: r.Host, Fields: r.Fields, Length: length,
	}
	if head.Host == "" {
		head.Host = p.host
	}
	b := head.Append(memory[:0])
	whole := r.Body == nil
	if !whole && r.Ready && length >= 0 && length <= smallBody {
		n := len(b)
		b = append(b, make([]byte, length)...)
		if _, err := io.ReadFull(r.Body, b[n:]); err != nil {
			_ = a.conn.Close() // the backend didn't get the request, so no answer will come
			return 0, err, nil
		}
		r.drop()
		whole, reused = true, false // the body can't be read again, and newestIdle has looked at the connection
	}
	if whole && a.conn.bare {
		a.conn.limit(p.answerTimeout)
		return a.conn.talk(b, memory, reused)
	}
	_, err := a.conn.Write(b)
	if whole || err != nil {
		a.conn.limit(p.answerTimeout)
		return 0, err, nil
	}
	a.conn.unlimit() // the time limit for the answer begins when the body was sent
	a.upload = startUpload(a.conn, r, p.answerTimeout)
	return 0, nil, nil
}

// receive reads heads until it has read the head of the final answer.
func (a *Answer) receive(r *Request) error {
	head := http1.Response{Fields: a.Fields}
	for range 1 + mostHints {
		if err := a.buffer.ReadResponse(&head, r.Method); err != nil {
			return err
		}
		if head.Status >= 200 || head.Status == http.StatusSwitchingProtocols {
			if a.upload != nil {
				a.conn.head()
			}
			head.KeepAlive = head.KeepAlive && !r.mayBeUnread(head.Status)
			if head.Status >= http.StatusMultipleChoices {
				a.upload.end() // the backend has answered without asking for the body, so it doesn't want the body
			}
			a.setHead(&head)
			return nil
		}
		if a.hinted = true; head.Status == http.StatusContinue {
			a.upload.goAhead()
		}
		if r.Hints != nil {
			r.Hints.Hint(head.Status, head.Fields)
		}
	}
	return errUnasked
}

const (
	// askedFor is how long a body waits for a 100 (Continue), which the backend may not support (RFC 9110,
	// 10.1.1).
	askedFor = time.Second
	// uploadPiece is the size, in bytes, of the pieces in which a body is sent.
	uploadPiece = 16 << 10
)

// upload sends the body of a request. A nil upload is complete.
type upload struct {
	conn *Conn
	r    *Request
	asks chan struct{} // closed when the backend asks for the body, or the body isn't needed; nil: the body is sent at once
	once sync.Once
	done atomic.Bool // the whole body was sent
	over atomic.Bool // whether the body is no longer needed
}

// startUpload sends the body of a request while the pool waits for the answer. The answer may come before the
// end of the body.
func startUpload(c *Conn, r *Request, timeout time.Duration) *upload {
	c.begin()
	u := &upload{conn: c, r: r}
	if r.Fields.Has("Expect") {
		u.asks = make(chan struct{})
	}
	go u.run(timeout)
	return u
}

// isDone reports whether the whole body was sent.
func (u *upload) isDone() bool { return u == nil || u.done.Load() }

// goAhead ends the wait for a 100 (Continue).
func (u *upload) goAhead() {
	if u != nil && u.asks != nil {
		u.once.Do(func() { close(u.asks) })
	}
}

// end records that the rest of the body isn't needed. Closing the connection ends a pending Write.
func (u *upload) end() {
	if u != nil {
		u.over.Store(true)
		u.goAhead()
	}
}

func (u *upload) run(timeout time.Duration) {
	defer u.r.drop()
	if u.asks != nil {
		timer := time.NewTimer(askedFor)
		defer timer.Stop()
		select {
		case <-u.asks:
		case <-timer.C:
		}
	}
	if u.over.Load() {
		return
	}
	complete, err := u.send(timeout)
	// If the client hasn't sent the whole body, closing the sending side shows that to the backend. The backend
	// then gives up, or answers without reading the body. If writing to the backend failed (err), the backend
	// may already have answered, so the connection stays open.
	if !complete && err == nil && u.conn.CloseWrite() != nil {
		_ = u.conn.Close() // there is no other way to show the backend that the body is incomplete
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		timeout = 1 // the time is already over
	}
	u.conn.sentBody(timeout)
	u.done.Store(complete) // from now on another request may use the connection
}

// send sends the body and reports whether all of it was sent. An error comes from the backend, not from the body.
func (u *upload) send(timeout time.Duration) (complete bool, err error) {
	memory := make([]byte, http1.ChunkRoom+uploadPiece+2)
	for left := u.r.Length; ; {
		n, end := u.r.Body.Read(memory[http1.ChunkRoom : http1.ChunkRoom+uploadPiece])
		piece := memory[http1.ChunkRoom : http1.ChunkRoom+n]
		last := errors.Is(end, io.EOF)
		switch {
		case u.r.Length < 0 && n > 0:
			piece = http1.Chunk(memory, n)
		case u.r.Length >= 0:
			if left -= int64(n); left < 0 || left > 0 && last {
				return false, nil
			}
		}
		if u.r.Length < 0 && last {
			piece = http1.AppendLastChunk(piece, u.r.Trailer())
		}
		if len(piece) > 0 {
			u.conn.limitPiece(timeout)
			if _, err := u.conn.Write(piece); err != nil {
				return false, err
			}
		}
		if end != nil {
			return last, nil //nolint:nilerr // see above
		}
	}
}
