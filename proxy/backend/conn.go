package backend

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Conn is a connection to the backend. Its exported methods may be called concurrently.
type Conn struct {
	net.Conn
	raw  syscall.RawConn // nil: it cannot be looked at
	bare bool            // raw is all of it: there is no TLS
	idle time.Time       // since when it waits for a request

	estimated *estimated

	talks talk // of who uses it
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

// estimated is CPU time. It lies outside of its Conn, as a client's connection keeps it while that
// is idle, and is not to keep what is closed.
type estimated struct{ ns atomic.Int64 }

func newConn(c net.Conn) *Conn {
	x := &Conn{Conn: c, estimated: new(estimated)}
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

// Estimated is the CPU time that requests on this connection were estimated to have used, all
// together.
func (c *Conn) Estimated() time.Duration { return time.Duration(c.estimated.ns.Load()) }

// isClean tells whether nothing lies in the connection that nobody asked for: TLS reads
// whole records, of which an answer may have left something.
func (c *Conn) isClean() bool {
	if _, secure := c.Conn.(*tls.Conn); !secure {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetReadDeadline(time.Unix(1, 0)) // what is there comes all the same
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

// sentBody says that the body is sent: see limit.
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

// limitLocked leaves an earlier deadline as it is: it is extended as it passes, and hardly
// any does.
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
