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

// Request is what is asked of the backend.
type Request struct {
	Method string
	// Target, Host and the fields are sent as they are. Host may be empty.
	Target, Host string
	Fields       http1.Fields
	// Body is closed once it is no longer needed, and may be read for a moment after the answer
	// is complete; nil: there is none. If a Read fails, the backend sees the end of the
	// connection, and its answer is still awaited.
	Body io.ReadCloser
	// Length is that of the body; negative: unknown. Ready is true if reading it doesn't wait.
	Length int64
	Ready  bool
	// Announced is the names of what follows a body of unknown length; Trailer is called as that has come
	// to its end.
	Announced []string
	Trailer   func() http1.Fields
	Hints     Hints
}

// Hints is called with answers before the final one (1xx of RFC 9110, 15.2).
type Hints interface {
	Hint(status int, fields http1.Fields)
}

const (
	// mostHints is how many answers may come before the final one.
	mostHints = 100
	// smallBody is the longest body that is sent together with the head.
	smallBody = 4 << 10
)

// errUnasked: bytes without a request.
var errUnasked = errors.New("the backend sent bytes without a request")

// Do sends a request and returns the answer as its head is there. The caller reads the
// Answer's Body to its end, or closes it. If the call is cancelled, the error is
// context.Canceled; errors of the connection are those of package net.
func (p *Pool) Do(call *Call, r *Request) (*Answer, error) {
	if call.isCancelled() {
		r.drop()
		return nil, context.Canceled
	}
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
		_ = c.Close() // what it says is not understood, or nothing
		if !reused || !nothing || !r.mayBeRepeated() || call.isCancelled() {
			r.drop()
			return nil, call.why(err)
		}
		c = nil
	}
}

// why is the reason that a request failed for.
func (c *Call) why(err error) error {
	if c.isCancelled() {
		return context.Canceled
	}
	return err
}

// mayBeRepeated reports whether it does no harm to send the request twice, and that is
// possible.
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

// mayBeUnread reports whether a backend with this answer may not have read the body: because
// most servers expect none for the method (RFC 9110, 9.3.1), because it redirects the client,
// which servers do without the application, or because it refuses the request. Some do not drop
// an unread body: they would take it for a request, and the next client would get its answer.
// Others wait for a moment, and close the connection when the next request comes.
func (r *Request) mayBeUnread(status int) bool {
	if r.Body == nil {
		return false
	}
	if status >= http.StatusMultipleChoices {
		return true
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// drop closes a body that isn't needed.
func (r *Request) drop() {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// ask sends a request over a connection and awaits the head of the answer. Nothing
// tells that the connection ended before a byte of one came, if there is an error.
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
	nothing = a.buffer.Buffered() == 0 && !a.hinted && ended(err)
	a.upload.end()
	p.memory.Put(m)
	a.free()
	if nothing && failed != nil {
		err = failed // a backend that closes the connection may have answered before; this one has not
	}
	return nil, nothing, err
}

// ended reports whether an error of reading is the end of the connection. A backend that
// takes too long works on the request, and one that is not understood has answered it.
func ended(err error) bool {
	return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, http1.ErrMalformed)
}

// send sends the head, and the available part of the body; a goroutine sends the rest. It may
// have read the first bytes of an answer, which are then in memory, or an error.
func (p *Pool) send(a *Answer, r *Request, memory []byte, reused bool) (n int, sending, reading error) {
	length := r.Length
	if r.Body == nil {
		length = 0
	}
	head := http1.Request{
		Method: r.Method, Target: r.Target, Host: r.Host, Fields: r.Fields, Length: length, Announced: r.Announced,
	}
	if head.Host == "" {
		head.Host = p.host
	}
	b := head.Append(memory[:0])
	if a.conn.talksAbout(r) {
		a.conn.limit(p.answerTimeout)
		return a.conn.talk(b, memory, reused)
	}
	whole := r.Body == nil
	if !whole && r.Ready && length >= 0 && length <= smallBody {
		n := len(b)
		b = append(b, make([]byte, length)...)
		if _, err := io.ReadFull(r.Body, b[n:]); err != nil {
			_ = a.conn.Close() // nothing was asked, and nothing is to be awaited
			return 0, err, nil
		}
		r.drop()
		whole = true
	}
	_, err := a.conn.Write(b)
	if whole || err != nil {
		a.conn.limit(p.answerTimeout)
		return 0, err, nil
	}
	a.conn.unlimit() // before it is sent it may take as long as it takes
	a.upload = startUpload(a.conn, r, p.answerTimeout)
	return 0, nil, nil
}

// receive reads heads until that of the final answer.
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
				a.upload.end() // it does not want a body that it was not asked for
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
	// askedFor is how long a body waits to be asked for by a backend that may not know
	// how to (RFC 9110, 10.1.1).
	askedFor = time.Second
	// uploadPiece is how much of a body goes at a time.
	uploadPiece = 16 << 10
)

// upload is a body on its way to the backend. A nil one is complete.
type upload struct {
	conn *Conn
	r    *Request
	asks chan struct{} // closed when the backend asks for the body, or nobody wants it; nil: it goes at once
	once sync.Once
	done atomic.Bool // all of it was sent
	over atomic.Bool // nobody wants it
}

// startUpload sends the body of a request while the answer is awaited, as it may come
// before the body has come to its end.
func startUpload(c *Conn, r *Request, timeout time.Duration) *upload {
	c.begin()
	u := &upload{conn: c, r: r}
	if r.Fields.Has("Expect") {
		u.asks = make(chan struct{})
	}
	go u.run(timeout)
	return u
}

// isDone reports whether nothing of the body is on its way any more.
func (u *upload) isDone() bool { return u == nil || u.done.Load() }

// goAhead has a body that waits for that be sent.
func (u *upload) goAhead() {
	if u != nil && u.asks != nil {
		u.once.Do(func() { close(u.asks) })
	}
}

// end says that nobody wants the body any more. A Write that is under way ends as the
// connection is closed.
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
	complete, err := u.send()
	// If the client did not send all of it, a backend that reads gives up, and one that
	// does not finishes; its end is seen. One that does not take it may have answered.
	if !complete && err == nil && u.conn.CloseWrite() != nil {
		_ = u.conn.Close() // there is no other way to tell
	}
	u.conn.sentBody(timeout)
	u.done.Store(complete) // after that the connection is another request's
}

// trailer is what follows the body.
func (u *upload) trailer() http1.Fields {
	if u.r.Trailer == nil {
		return nil
	}
	return u.r.Trailer()
}

// send returns whether all of it was sent. An error is that of the backend, and none of
// the body.
func (u *upload) send() (complete bool, err error) {
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
			piece = http1.AppendLastChunk(piece, u.trailer())
		}
		if len(piece) > 0 {
			if _, err := u.conn.Write(piece); err != nil {
				return false, err
			}
		}
		if end != nil {
			return last, nil //nolint:nilerr // see above
		}
	}
}
