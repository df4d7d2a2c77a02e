package front

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/http1"
)

// conn is a client's connection. Its goroutine alone uses what is not said to be shared.
type conn struct {
	net.Conn
	RosterEntry[conn] // of the server

	server   *Server
	entrance *Entrance
	tls      *secured        // what Conn is; nil: another one
	place    Place           // nil: there is no bound
	raw      syscall.RawConn // nil: it is not the kernel's
	isTCP    bool
	remote   string

	presence presence
	base     *http.Request        // see blank; nil: none is needed yet
	secure   *tls.ConnectionState // of its requests; nil: they come without TLS

	served atomic.Bool // a request; shared
	rested atomic.Bool // it waits in another goroutine than it served in; shared

	mu      sync.Mutex // guards the following, which are shared
	stage   stage
	woken   bool          // its read is to return at once
	since   time.Duration // it waits, idle or inHead; see Server.since
	session *session      // of HTTP/2; nil: there is none
	isLate  bool          // the client of a session
	lingers bool          // it is closed once the client has heard of it, as far as it is not late

	hijacked atomic.Bool // it is the handler's; shared

	in     http1.Buffer
	memory *[inSize]byte // that in begins with; nil: none
	long   bool          // in may have grown beyond it
	try    func(fd uintptr) bool
	tried  int
	tryErr error
	give   func(fd uintptr) bool
	gives  [][]byte // what give is to write yet
	gave   error
}

func (s *Server) newConn(c net.Conn, e *Entrance, place Place) *conn {
	x := &conn{Conn: c, server: s, entrance: e, place: place, remote: c.RemoteAddr().String()}
	if k, ok := c.(syscall.Conn); ok {
		x.raw, _ = k.SyscallConn() // without it, memory is held while it waits
		_, x.isTCP = c.(*net.TCPConn)
		x.try = x.tryRead
	}
	if e.TLS != nil {
		x.tls = secure(c, x.raw, e.TLS)
		x.Conn = x.tls
		x.try = x.tryRecord
	}
	ctx := context.Background()
	if s.o.Context != nil {
		ctx = s.o.Context(ctx, c)
	}
	x.presence.Context = ctx
	return x
}

// blank is an empty request that has the connection's context, and its TLS.
func (c *conn) blank() *http.Request {
	if c.base == nil {
		c.base = new(http.Request).WithContext(&c.presence)
		c.base.TLS = c.secure
	}
	return c.base
}

// serve serves request after request.
func (c *conn) serve() {
	defer c.recovers()
	for more := true; more; {
		switch c.await() {
		case rested:
			go c.serve()
			return
		case ended:
			more = false
		case came:
			if c.isHTTP2() {
				c.serveHTTP2()
				return
			}
			more = c.request()
		}
	}
	c.end()
}

// recovers ends a connection alone whose goroutine panics: on what a client sent, or as a
// certificate was chosen for it.
func (c *conn) recovers() {
	if p := recover(); p != nil {
		c.fails(p)
		c.end()
	}
}

// fails logs a panic.
func (c *conn) fails(p any) {
	c.server.o.Log.Error("a connection failed", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

var errFailed = errors.New("the connection failed")

// resets makes the connection be reset when it is closed, by any code, and by the kernel if the
// process ends: a client for which the end of the connection ends the body, as in HTTP/1.0, would
// otherwise accept half a body as complete. A unix socket cannot be reset.
func (c *conn) resets(on bool) {
	seconds := -1
	if on {
		seconds = 0
	}
	if c.tls != nil {
		c.tls.resets.Store(on)
	}
	if tcp, ok := c.below().(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(seconds) // a connection that is closed says so when it is used
	}
}

// below is the connection that was accepted.
func (c *conn) below() net.Conn {
	if c.tls != nil {
		return c.tls.below.Conn
	}
	return c.Conn
}

// end closes the connection, unless it is the handler's.
func (c *conn) end() {
	c.mu.Lock()
	c.stage = closed
	c.mu.Unlock()
	c.giveBack()
	if !c.hijacked.Load() {
		c.Remove()
		_ = c.Close() // the client may have done so
	}
	if c.place != nil {
		c.place.Leave()
	}
}

// lookAt checks whether the client is still connected.
func (c *conn) lookAt() {
	if c.hijacked.Load() {
		return
	}
	if teller, ok := c.Conn.(interface{ HasLeft() bool }); ok && teller.HasLeft() || c.raw != nil && hasLeft(c.raw, c.isTCP) {
		c.presence.leave()
	}
}

// isHTTP2 reports whether a connection begins as HTTP/2 does (RFC 9113, 3.4), as far as it
// was read. No request of HTTP/1 has that method (RFC 7540, 11.6).
func (c *conn) isHTTP2() bool {
	switch {
	case c.served.Load():
		return false
	case c.tls != nil:
		return c.tls.http2 // over TLS nothing else tells (3.3)
	}
	const enough = len("PRI ")
	for {
		first := c.in.Peek(enough)
		switch {
		case string(first) != preface[:len(first)]:
			return false
		case len(first) == enough:
			return true
		case c.in.More() != nil:
			return false // it comes again as the request is read
		}
	}
}

// request reads a request and has it served. It returns false if that was the last one.
func (c *conn) request() bool {
	r := c.server.memory.requests.Get().(*request)
	r.head.Fields = r.fields
	err := c.readHead(r)
	if !c.work() || c.place != nil && !c.place.Busy() {
		return false
	}
	if err == nil {
		err = r.setHead(c)
	}
	if err != nil {
		r.clear()
		c.server.memory.requests.Put(r)
		c.refuse(err)
		return false
	}
	if c.shorten(); c.in.Buffered() == 0 && r.head.Framing == http1.Empty {
		c.giveBack()
	}
	return c.answer(r)
}

// answer has the handler answer a request. It returns false if the connection serves no
// other one.
func (c *conn) answer(r *request) bool {
	w := &r.response
	w.begin(c, r)
	done := w.serve()
	stays := done && w.end()
	sends := !w.hijacked && w.err == nil && (done || w.headMade && !w.endsBody()) && (r.body.isUnread() && !r.body.isBroken() || c.in.Buffered() > 0)
	_ = r.Body.Close()
	w.giveBack()
	if !w.keeps {
		r.clear()
		c.server.memory.requests.Put(r)
	}
	c.served.Store(true)
	c.rested.Store(false)
	switch {
	case stays:
		if c.in.Buffered() == 0 {
			c.giveBack()
		}
		stays = c.waits(time.Now())
	case sends:
		c.drainClient()
	}
	return stays
}

// serve calls the handler. It returns false if that panicked; an answer that was begun then
// breaks off.
func (w *Response) serve() (done bool) {
	defer func() {
		if done {
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is that value
			w.conn.fails(p)
			w.fail()
		}
	}()
	h := w.conn.entrance.Handler
	if h == nil {
		h = w.conn.server.handler
	}
	h.ServeHTTP(w, &w.r.Request)
	return true
}

// refuse answers what is no request, as far as it is one.
func (c *conn) refuse(err error) {
	status := http1.StatusOf(err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && c.in.Buffered() == 0:
		return // an empty line is no request: the next one may be on its way, and this would be its answer
	case errors.Is(err, os.ErrDeadlineExceeded):
		status, err = http.StatusRequestTimeout, errors.New("the rest of the head did not come")
	case !errors.Is(err, http1.ErrMalformed):
		return // the client disconnected
	}
	c.turnAway(c.Conn, status, err.Error())
}

// presence is the context of a connection's requests: it ends when the client has left.
// It may be used concurrently.
type presence struct {
	context.Context // of the server

	left atomic.Bool

	mu   sync.Mutex    // guards the following
	done chan struct{} // nil: no request waits for it
}

// leave notes that the client disconnected.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left.Swap(true) && p.done != nil {
		close(p.done)
	}
}

// Done implements context.Context.
func (p *presence) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.left.Load() {
			close(p.done)
		}
	}
	return p.done
}

// Err implements context.Context.
func (p *presence) Err() error {
	if p.left.Load() {
		return context.Canceled
	}
	return nil
}
