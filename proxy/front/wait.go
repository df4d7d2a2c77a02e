package front

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"tempomat/proxy/http1"
	"tempomat/proxy/nonblock"
)

// stage is the state of a connection's current request.
type stage uint8

const (
	working stage = iota // the connection serves a request
	idle                 // the connection waits for a request
	inHead               // the connection waits for the rest of a request's head
	closed
)

// waited is the outcome of the wait for a request.
type waited uint8

const (
	came   waited = iota // the first bytes have arrived
	ended                // the connection is over
	rested               // another goroutine must continue the wait
)

// await waits for the first bytes of a request. It borrows memory only when they arrive.
func (c *conn) await() waited {
	if c.in.Buffered() > 0 { // the client sent the next request without waiting for the answer
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

// readFirst waits until something can be read, and reads it. While it waits, it holds no memory. TLS therefore gets
// room for a single byte: it keeps the rest of the record itself.
func (c *conn) readFirst() (n int, err error) {
	if c.dry && c.raw != nil { // a new goroutine waits, and a read of TLS would double its stack
		if err = c.raw.Read(hasCome); err != nil {
			return 0, err
		}
	}
	c.dry = false
	if c.try == nil {
		for n == 0 && err == nil {
			n, err = c.Read(c.first[:])
		}
		if n > 0 {
			c.memory = c.server.memory.in.Get().(*[inSize]byte)
			c.memory[0] = c.first[0]
		}
		return n, err
	}
	if err = c.raw.Read(c.try); err == nil {
		if n, err = c.tried, c.tryErr; err == nil && n == 0 {
			err = io.EOF
		}
	}
	if n <= 0 {
		c.giveBack()
	}
	return n, err
}

// hasCome reports whether something can be read.
func hasCome(fd uintptr) bool {
	_, err := nonblock.Peek(fd, make([]byte, 1))
	return err != syscall.EAGAIN //nolint:errorlint // errors.Is needs stack as well
}

// tryRead reads without waiting. If there is nothing to read, it gives its memory back and returns false; the
// poller calls it again when something has arrived.
func (c *conn) tryRead(fd uintptr) bool {
	c.memory = c.server.memory.in.Get().(*[inSize]byte)
	c.tried, c.tryErr = nonblock.Read(fd, c.memory[:])
	if c.tryErr == syscall.EAGAIN { //nolint:errorlint // nothing wraps it
		c.giveBack()
		return false
	}
	return true
}

// giveBack returns the memory that requests are read into.
func (c *conn) giveBack() {
	if c.memory != nil {
		c.in = http1.Buffer{}
		c.server.memory.in.Put(c.memory)
		c.memory = nil
	}
}

// since converts a time to the form that connections store, which takes 8 bytes instead of 24.
func (s *Server) since(t time.Time) time.Duration { return t.Sub(s.began) }

// waits records that the connection waits for a request. It returns false if the connection was closed to make
// room for another one.
func (c *conn) waits(now time.Time) bool {
	c.mu.Lock()
	isClosed := c.stage == closed
	if !isClosed {
		c.stage = idle
	}
	c.since = c.server.since(now)
	c.mu.Unlock()
	return !isClosed && c.place.Idle(now)
}

// begin records that a request has begun to arrive.
func (c *conn) begin(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != closed {
		c.stage, c.since = inHead, c.server.since(now)
		c.calm()
	}
}

// work records that the head of a request has arrived, or that none will. It returns false if the connection
// was closed in the meantime.
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

// rest reports whether another goroutine must wait for the next request, because the sweep has woken this one.
// Serving a request grows the goroutine's stack, which would stay large for as long as the client is silent.
func (c *conn) rest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stage != idle || !c.woken {
		return false
	}
	c.calm()
	c.rested.Store(true)
	c.dry = c.tls != nil
	return true
}

// wake makes a pending read return. c.mu is held.
func (c *conn) wake() {
	if !c.woken {
		c.woken = true
		_ = c.SetReadDeadline(time.Unix(1, 0)) // if the connection is closed, the read fails anyway
	}
}

// wakeNow does the same as wake, for callers that don't hold c.mu.
func (c *conn) wakeNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

// calm undoes wake, so that reads wait again. c.mu is held.
func (c *conn) calm() {
	if c.woken {
		c.woken = false
		_ = c.SetReadDeadline(time.Time{})
	}
}

// restAfter is how long an idle connection keeps its goroutine. Then a new goroutine with a small stack takes
// over, so only recently used connections have large stacks.
const restAfter = time.Second / 4

// sweepEvery returns how often to check connections that have these timeouts.
func sweepEvery(header, idle time.Duration) time.Duration {
	least := restAfter
	for _, d := range []time.Duration{header, idle} {
		if d > 0 {
			least = min(least, d/8)
		}
	}
	return max(least, 5*time.Millisecond)
}

// After manyRested connections have come to rest, and no further one during quietSweeps sweeps, the process returns
// unused memory to the system. Otherwise it would keep as much for garbage as all connections use.
const (
	manyRested  = 256
	quietSweeps = 4
)

// sweep closes connections that have waited too long, and replaces goroutines with large stacks by new ones.
// It runs until the server ends.
func (s *Server) sweep() {
	ticks := time.NewTicker(sweepEvery(s.o.Header, s.o.Idle))
	defer ticks.Stop()
	rested, quiet := 0, 0
	for {
		select {
		case <-s.over.Done():
			return
		case now := <-ticks.C:
			quiet++
			s.conns.Each(func(c *conn) {
				if c.look(now) {
					rested, quiet = rested+1, 0
				}
			})
			if rested >= manyRested && quiet >= quietSweeps {
				rested = 0
				debug.FreeOSMemory()
			}
		}
	}
}

// look checks one connection for sweep. It reports whether the connection comes to rest.
func (c *conn) look(now time.Time) (rests bool) {
	c.mu.Lock()
	waited, limit, served := c.server.since(now)-c.since, c.server.o.Idle, c.served.Load()
	if c.stage == inHead || !served { // a new connection gets as much time as a head
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
		rests = !c.woken
		c.wake()
	}
	c.mu.Unlock()
	if cuts {
		_ = c.Close()
	}
	return rests
}

// lingerTime is how long an HTTP/2 client may take to read the end of the connection.
const lingerTime = time.Second

// cutIdle closes the connection if it waits for a request. A session closes itself.
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
	// drainTime is the longest time that a connection stays open because its client still sends a body that
	// the server does not read. If the server closed it at once, the client's kernel would discard the answer
	// (RFC 9112, 9.6). The sweep may close it earlier, like an idle connection: after Options.Header if no
	// request was served, otherwise after Options.Idle.
	drainTime = 30 * time.Second
	// drainSilence is how long a client may send nothing during drainTime.
	drainSilence = 5 * time.Second
)

// drainClient sends the end of the connection, and discards what the client sends until it closes
// the connection.
func (c *conn) drainClient() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	c.giveBack() // the bytes that were read aren't used
	c.memory = c.server.memory.in.Get().(*[inSize]byte)
	now := time.Now()
	c.rested.Store(true) // the sweep must not wake the connection
	c.waits(now)         // Shutdown doesn't wait for connections that wait
	for until := now.Add(drainTime); now.Before(until); now = time.Now() {
		_ = c.SetReadDeadline(now.Add(drainSilence))           // if the connection is closed, the read fails
		if _, err := c.below().Read(c.memory[:]); err != nil { // below TLS, because the data isn't used
			return
		}
	}
}
