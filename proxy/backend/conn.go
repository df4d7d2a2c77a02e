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
	raw  syscall.RawConn // access to the descriptor; nil: there is none
	bare bool            // whether the connection has no TLS, so that raw can read and write its bytes
	idle time.Time       // when the connection became idle

	talks talk // state of the method talk; only the goroutine that uses the connection may use it
	step  func(fd uintptr) (done bool)

	look   func(fd uintptr) // used by isSilent
	speaks bool
	reset  atomic.Bool // set by noteReset

	mu       sync.Mutex // guards the fields below
	due      time.Time  // time limit for the head of the answer; zero: none
	deadline time.Time  // deadline of the connection: never later than due, and replaced by due when it passes; zero: none
	answered bool       // whether the answer's head has arrived while the request's body is still being sent
	closed   bool
}

func newConn(c net.Conn) *Conn {
	x := &Conn{Conn: c}
	x.step = x.talkStep
	secure, isTLS := c.(*tls.Conn)
	if isTLS {
		c = secure.NetConn()
	}
	if s, ok := c.(syscall.Conn); ok {
		x.raw, _ = s.SyscallConn() // if this fails, the pool notices a closed connection only when it writes
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

// isClean reports whether TLS holds no bytes after the end of the answer. crypto/tls reads whole records, and
// an answer may end in the middle of a record.
func (c *Conn) isClean() bool {
	if _, secure := c.Conn.(*tls.Conn); !secure {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.SetReadDeadline(time.Unix(1, 0)) // bytes that have already arrived can be read even after a deadline
	_, err := c.Conn.Read(make([]byte, 1))
	c.due = time.Time{}
	c.extendLocked()
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// begin records that the pool waits for the head of an answer while it still sends the request's body.
func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = false
}

// sentBody starts the time limit for the head after the body was sent. See limit.
func (c *Conn) sentBody(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.answered {
		_ = c.SetWriteDeadline(time.Time{}) // another request may use the connection
		c.limitLocked(timeout)
	}
}

// limitPiece sets the time limit for the backend to take a piece of the request's body; 0: none. After the head of the
// answer there is none either, because the backend may then read the body whenever it needs more of it.
func (c *Conn) limitPiece(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if timeout > 0 && !c.answered {
		_ = c.SetWriteDeadline(time.Now().Add(timeout)) // fails only if the connection is closed; writing then fails too
	}
}

// limit sets the time limit for the head of the answer; 0: none.
func (c *Conn) limit(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limitLocked(timeout)
}

// limitLocked is limit for callers that hold c.mu. If the connection still has an earlier deadline, limitLocked
// keeps it, and Read extends it when it passes. An early deadline rarely passes, so most requests need no
// system call to set one.
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
	_ = c.SetReadDeadline(c.deadline) // fails only if the connection is closed; reading then fails too
}

// extend sets the deadline to due. It returns false if the time limit is over. It compares due with the clock and
// not with the deadline that passed, because another goroutine may already have set a later one.
func (c *Conn) extend() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due.IsZero() && !c.due.After(time.Now()) {
		return false
	}
	c.extendLocked()
	return true
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (n int, err error) {
	for {
		n, err = c.read(p)
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

// read reads once, and without TLS as talk does.
func (c *Conn) read(p []byte) (n int, err error) {
	if !c.bare {
		return c.Conn.Read(p)
	}
	if n, _, err = c.talk(nil, p, false); err == io.ErrUnexpectedEOF { //nolint:errorlint // talk's own
		err = io.EOF
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	n, err = c.Conn.Write(p)
	c.noteReset(err)
	return n, err
}

// head records that the answer's head has arrived before the request's body was sent.
func (c *Conn) head() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
	_ = c.SetWriteDeadline(time.Time{})
}

// unlimit removes the time limit. Like limitLocked, it keeps the deadline until it passes.
func (c *Conn) unlimit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Time{}
}

// Close closes the connection. It may be called again.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.Conn.Close()
}

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// isSilent reports whether there is nothing to read: the backend has sent nothing and has not
// closed the connection. Without a descriptor it reports true. One goroutine at a time may call
// it.
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

// isSpoken reports whether there is something to read: data, the end or an error. A peek takes a quarter of the
// time of poll(2).
func isSpoken(fd uintptr) (bool, error) {
	var b [1]byte
	_, err := nonblock.Peek(fd, b[:])
	return err != syscall.EAGAIN, err //nolint:errorlint // nothing wraps it
}

// noteReset records that the backend has reset the connection. The kernel reports a reset only once, to the
// first poll, write or read. The next read reports the end of the connection, which would look like the regular
// end of a body without a length. With TLS this can't happen, because TLS itself marks the end.
func (c *Conn) noteReset(err error) {
	if c.bare && errors.Is(err, syscall.ECONNRESET) {
		c.reset.Store(true)
	}
}

// Call is the current request of one client to the backend. Another goroutine can cancel it. The client's
// next request uses the same Call. Cancel may be called at any time.
type Call struct {
	cancelled atomic.Bool // changes only while mu is held

	mu   sync.Mutex // guards the fields below
	conn *Conn      // connection in use; nil: none
	had  bool       // whether the request has had a connection
	stop context.CancelFunc
}

// Cancel abandons the current request, and closes the connection that it uses.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled.Store(true)
	if c.stop != nil {
		c.stop()
	}
	if c.conn != nil {
		_ = c.conn.Close() // the connection can't be used any more
	}
}

// Begin prepares the call for the next request.
func (c *Call) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled.Store(false)
	c.had = false
}

// use sets the connection in use; nil: none. It returns false if the request was cancelled.
func (c *Call) use(conn *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	c.had = c.had || conn != nil
	cancelled := c.cancelled.Load()
	if cancelled && conn != nil {
		_ = conn.Close()
	}
	return !cancelled
}

// Conn returns the connection that the current request uses, or nil.
func (c *Call) Conn() *Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// IsOpening reports whether the current request's first connection is still being opened, so the backend
// can't know of the request.
func (c *Call) IsOpening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop != nil && !c.had
}

// WasAsked reports whether the request has had a connection, so the backend may know of it.
func (c *Call) WasAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.had
}

// dial opens a connection, unless the request is cancelled in the meantime.
func (c *Call) dial(d Dial) (*Conn, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.mu.Lock()
	if c.stop = stop; c.cancelled.Load() {
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
