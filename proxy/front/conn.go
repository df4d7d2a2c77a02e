package front

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/http1"
)

// conn is a client's connection. Only its own goroutine uses the fields that are not marked as
// shared.
type conn struct {
	net.Conn
	RosterEntry[conn] // place in the server's list of connections

	server   *Server
	entrance *Entrance
	tls      *secured        // Conn, if it is a TLS connection; otherwise nil
	place    *connlimit.Conn // place among the open connections; nil: the connection has none
	raw      syscall.RawConn // access to the descriptor; nil: there is none, as in tests
	remote   string
	peer     netip.Addr

	presence presence
	base     *http.Request        // request that blank copies; nil: blank wasn't called yet
	secure   *tls.ConnectionState // TLS state for this connection's requests; nil: no TLS

	served atomic.Bool // a request was served; shared
	rested atomic.Bool // the connection waits in a goroutine that hasn't served a request, so its stack is small; shared

	mu      sync.Mutex    // guards the fields below, which are shared
	since   time.Duration // when the connection began to wait (idle or inHead); see Server.since
	session *session      // HTTP/2 session; nil with HTTP/1
	stage   stage
	woken   bool // whether the connection's pending read must return at once
	isLate  bool // whether the session's client took too long
	lingers bool // whether the last answer is still on its way to the client

	hijacked atomic.Bool // the handler has taken over the connection; shared
	trusted  bool        // whether the peer is a proxy that may name its client
	dry      bool        // whether TLS holds no record, because a read found none
	first    [1]byte     // first byte of a request, if there is no try

	in     http1.Buffer
	memory *[inSize]byte // borrowed memory that in uses, except during a long head; nil: none
	try    func(fd uintptr) bool
	tried  int
	tryErr error
	give   func(fd uintptr) bool // this field and the next two belong to the writer; TLS allows one at a time
	gives  [][]byte              // the pieces that giveRaw has not written yet
	gave   error
}

func (s *Server) newConn(c net.Conn, e *Entrance) *conn {
	x := &conn{Conn: c, server: s, entrance: e}
	x.give = x.giveStep
	if k, ok := c.(syscall.Conn); ok {
		x.raw, _ = k.SyscallConn() // if this fails, the connection works, but Look doesn't
	}
	switch {
	case e.TLS != nil:
		x.tls = secure(x, e.TLS)
		x.Conn = x.tls
	case x.raw != nil:
		x.try = x.tryRead
	}
	x.presence.Context = s.o.Context(context.Background(), c)
	return x
}

// enter gives the connection a place as one from a peer. It returns false if there is no room; the connection is then
// closed.
func (c *conn) enter(remote string) bool {
	c.remote = remote
	c.peer, c.trusted = c.server.o.Peer(remote)
	c.place = c.server.o.Table.Enter(time.Now(), c.peer, c.trusted, c.below())
	return c.place != nil
}

// blank returns an empty request that has the connection's context and TLS state.
func (c *conn) blank() *http.Request {
	if c.base == nil {
		c.base = new(http.Request).WithContext(&c.presence)
		c.base.TLS = c.secure
	}
	return c.base
}

// serve serves one request after another.
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

// recovers makes a panic of the connection's goroutine end only this connection. For example, the code that
// parses input or chooses a certificate may panic.
func (c *conn) recovers() {
	if p := recover(); p != nil {
		c.fails(p)
		c.end()
	}
}

// fails logs a panic.
func (c *conn) fails(p any) {
	c.server.o.Log.Error("a connection's goroutine panicked", zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

var errFailed = errors.New("the connection failed")

// resets sets whether closing the connection resets it, even if the kernel closes it because the process ends.
// With HTTP/1.0 the end of the connection may mark the end of the body, so without a reset the client would
// accept half a body as complete. A unix socket can't be reset.
func (c *conn) resets(on bool) {
	seconds := -1
	if on {
		seconds = 0
	}
	if c.tls != nil {
		c.tls.resets.Store(on)
	}
	if tcp, ok := c.below().(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(seconds) // it fails only if the connection is closed, which its next use reports
	}
}

// below returns the connection that was accepted, without TLS.
func (c *conn) below() net.Conn {
	if c.tls != nil {
		return c.tls.below.Conn
	}
	return c.Conn
}

// end closes the connection, unless the handler has taken over the connection.
func (c *conn) end() {
	c.mu.Lock()
	c.stage = closed
	c.mu.Unlock()
	c.giveBack()
	if !c.hijacked.Load() {
		c.Remove()
		_ = c.Close() // the client may have closed it already
	}
	if c.place != nil {
		c.place.Leave()
	}
}

// isHTTP2 reports whether the connection begins with the preface of HTTP/2 (RFC 9113, 3.4). HTTP/1 requests
// never have the method PRI (RFC 7540, 11.6).
func (c *conn) isHTTP2() bool {
	switch {
	case c.served.Load():
		return false
	case c.tls != nil:
		return c.tls.http2 // over TLS only the negotiated protocol counts (3.3)
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
			return false // reading the request will return the same error
		}
	}
}

// request reads one request and serves it. It returns false if the connection serves no more
// requests.
func (c *conn) request() bool {
	w := c.server.memory.responses.Get().(*Response)
	w.head.Fields = w.asked
	err := c.readHead(&w.head)
	if !c.work() || !c.place.Busy() {
		return false
	}
	if err == nil {
		err = w.setHead(c)
	}
	if err != nil {
		w.clear()
		c.server.memory.responses.Put(w)
		c.refuse(err)
		return false
	}
	if c.in.Buffered() == 0 && w.head.Framing == http1.Empty {
		c.giveBack()
	}
	return c.answer(w)
}

// answer calls the handler for a request. It returns false if the connection serves no more
// requests.
func (c *conn) answer(w *Response) bool {
	done, failed := c.handle(w, &w.request)
	if failed {
		w.fail()
	}
	stays := done && w.end()
	sends := !c.hijacked.Load() && w.err == nil && (done || w.status != 0 && !w.endsBody()) && (w.body.isUnread() && !w.body.isBroken() || c.in.Buffered() > 0)
	_ = w.request.Body.Close()
	w.giveBack()
	if !w.keeps {
		w.clear()
		c.server.memory.responses.Put(w)
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

// handle calls the handler. If the handler panics, done is false: an answer that had begun is then incomplete. failed
// reports whether the panic was a bug.
func (c *conn) handle(w http.ResponseWriter, r *http.Request) (done, failed bool) {
	defer func() {
		if done {
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // handlers panic with exactly this value
			c.fails(p)
			failed = true
		}
	}()
	h := c.entrance.Handler
	if h == nil {
		h = c.server.handler
	}
	h.ServeHTTP(w, r)
	return true, false
}

// refuse answers a client whose request has an unreadable head, if the client is still connected.
func (c *conn) refuse(err error) {
	status := http1.StatusOf(err)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && c.in.Buffered() == 0:
		return // the client sent only empty lines, and would mistake an answer for that to its next request
	case errors.Is(err, os.ErrDeadlineExceeded):
		status, err = http.StatusRequestTimeout, errors.New("the rest of the headers did not arrive")
	case !errors.Is(err, http1.ErrMalformed):
		return // the client disconnected
	}
	c.turnAway(c.Conn, status, err.Error())
}

// presence is the context of a connection's requests. It ends when the client disconnects. It may
// be used concurrently.
type presence struct {
	context.Context // context of the server

	left atomic.Bool

	mu   sync.Mutex    // guards the fields below
	done chan struct{} // closed when the client disconnects; nil: Done wasn't called yet
}

// leave records that the client has disconnected.
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
