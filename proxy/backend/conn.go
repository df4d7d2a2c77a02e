package backend

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a connection to the backend. Its methods may be called concurrently.
type Conn struct {
	net.Conn
	raw  syscall.RawConn // nil: it cannot be looked at
	idle time.Time       // since when it waits for another one

	look   func(fd uintptr) // see isAlive, which one goroutine calls at a time
	looked [1]unix.PollFd
	speaks bool

	mu       sync.Mutex // guards the following
	deadline time.Time  // of reading, which may have passed; zero: none
	answered bool       // the head of the answer is there, to a request whose body is on its way
	closed   bool
}

func newConn(c net.Conn) *Conn {
	x := &Conn{Conn: c}
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		x.raw, _ = s.SyscallConn() // without it, a connection that was closed is found out late
	}
	return x
}

// isClean tells whether nothing lies in the connection that nobody asked for: TLS reads
// whole records, of which an answer may have left something.
func (c *Conn) isClean() bool {
	if _, secure := c.Conn.(*tls.Conn); !secure {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetReadDeadline(time.Unix(1, 0)) // what is there comes all the same
	_, err := c.Read(make([]byte, 1))
	c.deadline = time.Time{}
	_ = c.SetReadDeadline(c.deadline)
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

// mostLate is how much later than the timeout a deadline may be, that it serves several
// requests: to set one takes as long as a lookup in a large map.
const mostLate = time.Second

func (c *Conn) limitLocked(timeout time.Duration) {
	now := time.Now()
	if timeout <= 0 || c.deadline.Sub(now) >= timeout {
		return
	}
	c.deadline = now.Add(timeout + min(mostLate, timeout/8))
	_ = c.SetReadDeadline(c.deadline) // a connection that is closed says so when it is read
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
		c.deadline = time.Time{}
		_ = c.SetReadDeadline(c.deadline)
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
