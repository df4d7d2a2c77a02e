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
	limited  bool       // reading has a deadline, which may have passed
	answered bool       // the head of the answer is there
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
	c.limited = false
	_ = c.SetReadDeadline(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// begin awaits the head of another answer.
func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = false
}

// sent says that the request is sent: the head of the answer has to come within the
// timeout; 0: whenever it may.
func (c *Conn) sent(timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.answered {
		c.limited = true
		_ = c.SetReadDeadline(time.Now().Add(timeout)) // a connection that is closed says so when it is read
	}
}

// head says that the head of the answer is there.
func (c *Conn) head() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
}

// unlimit has reading take as long as it takes.
func (c *Conn) unlimit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limited {
		c.limited = false
		_ = c.SetReadDeadline(time.Time{})
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
