package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tempomat/proxy/nonblock"
)

// Conn is a connection to the backend. Its exported methods may be called concurrently.
type Conn struct {
	net.Conn
	raw  syscall.RawConn // nil: it cannot be looked at
	bare bool            // raw is all of it: there is no TLS
	idle time.Time       // since when it waits for a request

	talks talk // of its user
	step  func(fd uintptr) (done bool)

	look   func(fd uintptr) // of isSilent
	speaks bool
	reset  atomic.Bool // see noteReset

	mu       sync.Mutex // guards the following
	due      time.Time  // until when reading may take; zero: any time
	deadline time.Time  // of the connection: not after due, and extended then; zero: none
	answered bool       // the head of the answer is there, to a request whose body is on its way
	closed   bool
}

func newConn(c net.Conn) *Conn {
	x := &Conn{Conn: c}
	secure, isTLS := c.(*tls.Conn)
	if isTLS {
		c = secure.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		x.raw, _ = s.SyscallConn() // without it, a connection that was closed is found out late
	}
	x.bare = x.raw != nil && !isTLS
	return x
}

// SyscallConn implements syscall.Conn.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if c.raw == nil {
		return nil, errors.ErrUnsupported
	}
	return c.raw, nil
}

// isClean reports whether nothing lies in the connection that nobody asked for: TLS reads
// whole records, of which an answer may have left something.
func (c *Conn) isClean() bool {
	if _, secure := c.Conn.(*tls.Conn); !secure {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetReadDeadline(time.Unix(1, 0)) // what is there comes anyway
	_, err := c.Conn.Read(make([]byte, 1))
	c.due = time.Time{}
	c.extendLocked()
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// begin awaits the head of another answer while the body is on its way.
func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = false
}

// sentBody notes that the body is sent: see limit.
func (c *Conn) sentBody(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.answered {
		c.limitLocked(timeout)
	}
}

// limit has the head of the answer come within the timeout; 0: whenever it may.
func (c *Conn) limit(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limitLocked(timeout)
}

// limitLocked leaves an earlier deadline as it is: it is extended when it passes, and few do.
func (c *Conn) limitLocked(timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	now := time.Now()
	if c.due = now.Add(timeout); !c.deadline.After(now) || c.deadline.After(c.due) {
		c.extendLocked()
	}
}

func (c *Conn) extendLocked() {
	c.deadline = c.due
	_ = c.SetReadDeadline(c.deadline) // a connection that is closed says so when it is read
}

// extend sets the deadline that is due, if that is still to come.
func (c *Conn) extend() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due.After(c.deadline) {
		return false
	}
	c.extendLocked()
	return true
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (n int, err error) {
	for {
		n, err = c.Conn.Read(p)
		switch {
		case n > 0 || err == nil:
			return n, err
		case errors.Is(err, io.EOF) && c.reset.Load():
			return 0, os.NewSyscallError("read", syscall.ECONNRESET)
		case !errors.Is(err, os.ErrDeadlineExceeded) || !c.extend():
			return 0, err
		}
	}
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	n, err = c.Conn.Write(p)
	c.noteReset(err)
	return n, err
}

// head says that the head of the answer is there, whose request has a body.
func (c *Conn) head() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
}

// unlimit has reading take as long as it takes.
func (c *Conn) unlimit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() {
		c.due = time.Time{}
		c.extendLocked()
	}
}

// Close closes it, once.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.Conn.Close()
}

// CloseWrite closes the half that requests go by.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// isSilent reports whether there is nothing to be read: the backend has neither said anything, nor
// closed the connection. One that cannot be looked at is. One goroutine calls it at a time.
func (c *Conn) isSilent() bool {
	if c.raw == nil {
		return true
	}
	if c.look == nil {
		c.look = func(fd uintptr) {
			var err error
			c.speaks, err = isSpoken(fd)
			c.noteReset(err)
		}
	}
	return c.raw.Control(c.look) == nil && !c.speaks
}

// isSpoken reports whether there is something to be read, the end included, or an error. To peek costs a
// quarter of what poll(2) does.
func isSpoken(fd uintptr) (bool, error) {
	var b [1]byte
	_, err := nonblock.Peek(fd, b[:])
	return !errors.Is(err, syscall.EAGAIN), err
}

// noteReset notes that the backend has reset the connection. The kernel reports it once, to the first look, write
// or read: to the next one the connection has come to its end, which is how a body without a length ends. TLS has
// an end of its own.
func (c *Conn) noteReset(err error) {
	if c.bare && errors.Is(err, syscall.ECONNRESET) {
		c.reset.Store(true)
	}
}

// Call is what one client asks of the backend, one request after the other. Cancel may
// be called at any time.
type Call struct {
	mu        sync.Mutex // guards the following
	conn      *Conn      // in use; nil: none
	had       bool       // a connection was there for it
	stop      context.CancelFunc
	cancelled bool
}

// Cancel gives up the request that is under way, and the connection that it uses.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = true
	if c.stop != nil {
		c.stop()
	}
	if c.conn != nil {
		_ = c.conn.Close() // it is of no use any more
	}
}

// Begin readies it for the next request.
func (c *Call) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled, c.had = false, false
}

// use says which connection is in use; nil: none. It returns false if the request
// was given up.
func (c *Call) use(conn *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	c.had = c.had || conn != nil
	if c.cancelled && conn != nil {
		_ = conn.Close()
	}
	return !c.cancelled
}

// Conn is the connection that the request uses which is under way; nil: none.
func (c *Call) Conn() *Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// IsOpening reports whether a connection is being opened for the request that is under way, and it has had
// none before: the backend knows nothing of it.
func (c *Call) IsOpening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop != nil && !c.had
}

// WasAsked reports whether a connection was there for the request: the backend may know of it.
func (c *Call) WasAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.had
}

func (c *Call) isCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// dial opens a connection, unless the request is given up in the meantime.
func (c *Call) dial(d Dial) (*Conn, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.mu.Lock()
	if c.stop = stop; c.cancelled {
		stop()
	}
	c.mu.Unlock()
	conn, err := d(ctx)
	c.mu.Lock()
	c.stop = nil
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return newConn(conn), nil
}
