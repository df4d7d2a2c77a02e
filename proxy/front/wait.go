package front

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"tempomat/proxy/nonblock"
)

// stage is what a connection does.
type stage uint8

const (
	working stage = iota // on a request
	idle                 // it waits for a request
	inHead               // it waits for the rest of a request's head
	closed
)

// waited is how the wait for a request ended.
type waited uint8

const (
	came   waited = iota // its first bytes are there
	ended                // the connection is over
	rested               // another goroutine is to wait on
)

// await waits for the first bytes of a request, and borrows the memory for them as they
// come.
func (c *conn) await() waited {
	if c.in.Buffered() > 0 { // the client did not wait for the answer to the one before
		c.begin(time.Now())
		return came
	}
	n, err := c.readFirst()
	if n <= 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.rest() {
		c.base = nil
		return rested
	}
	c.begin(time.Now())
	if n <= 0 {
		return ended
	}
	c.in.Resume(c.Conn, c.memory[:], n)
	return came
}

// readFirst reads what there is, once there is something.
func (c *conn) readFirst() (n int, err error) {
	if c.raw == nil {
		c.memory = c.server.memory.in.Get().(*[inSize]byte)
		for n == 0 && err == nil {
			n, err = c.Read(c.memory[:])
		}
	} else if err = c.raw.Read(c.try); err == nil {
		if n, err = c.tried, c.tryErr; err == nil && n == 0 {
			err = io.EOF
		}
	}
	if n <= 0 {
		c.giveBack()
	}
	return n, err
}

// tryRead reads without waiting, and keeps no memory if there is nothing: then it returns
// false, and is called again when there is.
func (c *conn) tryRead(fd uintptr) bool {
	c.memory = c.server.memory.in.Get().(*[inSize]byte)
	c.tried, c.tryErr = nonblock.Read(fd, c.memory[:])
	if errors.Is(c.tryErr, syscall.EAGAIN) {
		c.giveBack()
		return false
	}
	return true
}

// tryRecord is tryRead over TLS: what the kernel has may be a part of a record, and TLS may
// have more records than the kernel.
func (c *conn) tryRecord(fd uintptr) bool {
	c.memory = c.server.memory.in.Get().(*[inSize]byte)
	c.tried, c.tryErr = c.tls.readNow(fd, c.memory[:])
	switch {
	case c.tried > 0:
		c.tryErr = nil // it comes again
	case errors.Is(c.tryErr, errNothing):
		c.giveBack()
		return false
	}
	return true
}

// giveBack returns the memory that the head was read to.
func (c *conn) giveBack() {
	if c.memory != nil {
		c.in.Reset(nil, nil)
		c.server.memory.in.Put(c.memory)
		c.memory = nil
		c.longEnds()
	}
}

// since is a time as connections keep it: 8 bytes instead of 24.
func (s *Server) since(t time.Time) time.Duration { return t.Sub(s.began) }

// waits says that the connection waits for a request. It returns false if it was closed for
// another one.
func (c *conn) waits(now time.Time) bool {
	c.mu.Lock()
	c.stage, c.since = idle, c.server.since(now)
	c.mu.Unlock()
	return c.place == nil || c.place.Idle(now)
}

// beginsToWait says that a connection whose handshake is over waits for its first request. It
// returns false if it was closed in the meantime.
func (c *conn) beginsToWait(now time.Time) bool {
	c.mu.Lock()
	isClosed := c.stage == closed
	c.since = c.server.since(now)
	c.mu.Unlock()
	return !isClosed && (c.place == nil || c.place.Idle(now))
}

// begin notes that a request has begun to arrive.
func (c *conn) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != closed {
		c.stage, c.since = inHead, c.server.since(now)
		c.calm()
	}
}

// work says that the head of a request has come, or that none will. It returns false if
// the connection was closed in the meantime.
func (c *conn) work() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage == closed {
		return false
	}
	c.stage = working
	c.calm()
	return true
}

// rest says that another goroutine is to wait on, if the sweep has woken this one for that:
// serving a request takes a large stack, which would be kept for as long as the client is
// silent.
func (c *conn) rest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != idle || !c.woken {
		return false
	}
	c.calm()
	c.rested.Store(true)
	return true
}

// wake has the connection's read return. c.mu is held.
func (c *conn) wake() {
	if !c.woken {
		c.woken = true
		_ = c.SetReadDeadline(time.Unix(1, 0)) // a connection that is closed says so when it is read
	}
}

// wakeNow is wake for callers that don't hold c.mu.
func (c *conn) wakeNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

// calm lets reads wait again after wake. c.mu is held.
func (c *conn) calm() {
	if c.woken {
		c.woken = false
		_ = c.SetReadDeadline(time.Time{})
	}
}

// restAfter is how long a connection waits before it is woken so that a fresh goroutine waits
// on: there are only as many large stacks as connections were used in that time.
const restAfter = time.Second / 4

// sweepEvery is how often to look at connections with these timeouts.
func sweepEvery(header, idle time.Duration) time.Duration {
	least := restAfter
	for _, d := range []time.Duration{header, idle} {
		if d > 0 {
			least = min(least, d/8)
		}
	}
	return max(least, 5*time.Millisecond)
}

// sweep closes connections that have waited for too long, and wakes those that hold a large
// stack in the meantime, until the server ends.
func (s *Server) sweep() {
	ticks := time.NewTicker(sweepEvery(s.o.Header, s.o.Idle))
	defer ticks.Stop()
	for {
		select {
		case <-s.closed:
			return
		case now := <-ticks.C:
			s.conns.Each(func(c *conn) { c.look(now) })
		}
	}
}

// look is sweep's look at one of them.
func (c *conn) look(now time.Time) {
	c.mu.Lock()
	waited, limit, served := c.server.since(now)-c.since, c.server.o.Idle, c.served.Load()
	if c.stage == inHead || !served { // a new one has as long as for a head
		limit = c.server.o.Header
	}
	tooLong := limit > 0 && waited >= limit
	cuts := false
	switch {
	case c.session != nil && tooLong && c.stage != working && c.stage != closed:
		c.isLate = true
		c.wake()
	case c.session == nil && c.stage == inHead && tooLong:
		c.wake()
	case c.session == nil && c.stage == idle && tooLong:
		c.stage, cuts = closed, true
	case c.stage == idle && served && waited >= restAfter && !c.rested.Load():
		c.wake()
	}
	c.mu.Unlock()
	if cuts {
		_ = c.Close()
	}
}

// lingerTime is for how long a client of HTTP/2 may take to hear that the server comes to its end.
const lingerTime = time.Second

// cutIdle closes the connection if it waits for a request. A session ends by itself.
func (c *conn) cutIdle(now time.Time) {
	c.mu.Lock()
	session := c.session
	cuts := c.stage == idle && session == nil && !(c.lingers && c.server.since(now)-c.since < lingerTime)
	if cuts {
		c.stage = closed
	}
	c.mu.Unlock()
	switch {
	case session != nil:
		session.retire(now)
	case cuts:
		_ = c.Close()
	}
}

const (
	// drainTime is how long a connection stays open at most while its client still sends a body
	// that is not read. The sweep may end it earlier, like one that waits for a request: after
	// Options.Header if none was served, otherwise after Options.Idle. If it were closed at
	// once, the client's kernel would discard the answer together with the connection (RFC 9112,
	// 9.6).
	drainTime = 30 * time.Second
	// drainSilence is how long such a client may send nothing.
	drainSilence = 5 * time.Second
)

// drainClient ends the half of the connection that answers go by, and throws away what comes
// on the other one until the client has closed it.
func (c *conn) drainClient() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	c.giveBack() // it may be more than the usual
	c.memory = c.server.memory.in.Get().(*[inSize]byte)
	now := time.Now()
	c.rested.Store(true) // it is not to be woken
	c.waits(now)         // a server that ends does not wait for it
	for until := now.Add(drainTime); now.Before(until); now = time.Now() {
		_ = c.SetReadDeadline(now.Add(drainSilence))           // a connection that is closed says so when it is read
		if _, err := c.below().Read(c.memory[:]); err != nil { // of TLS as well: it need not be understood
			return
		}
	}
}
