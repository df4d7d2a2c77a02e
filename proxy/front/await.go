package front

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"tempomat/proxy/nonblock"
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
	woken := c.begin(time.Now())
	switch {
	case n > 0:
		c.in.Resume(c.Conn, c.memory.bytes[:], n)
		return came
	case woken && errors.Is(err, os.ErrDeadlineExceeded):
		// Serving a request takes a large stack, which would be kept for as long as the
		// client is silent.
		c.base = nil
		c.rested.Store(true)
		c.state.Store(c.idle)
		return rested
	}
	return ended
}

// readFirst reads what there is, once there is something.
func (c *conn) readFirst() (n int, err error) {
	if c.raw == nil {
		c.memory = c.server.memory.in.Get().(*inMemory)
		for n == 0 && err == nil {
			n, err = c.Read(c.memory.bytes[:])
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
	c.memory = c.server.memory.in.Get().(*inMemory)
	c.tried, c.tryErr = nonblock.Read(fd, c.memory.bytes[:])
	if errors.Is(c.tryErr, syscall.EAGAIN) {
		c.giveBack()
		return false
	}
	return true
}

// tryRecord is tryRead over TLS: what the kernel has may be a part of a record, and TLS may
// have more records than the kernel.
func (c *conn) tryRecord(fd uintptr) bool {
	c.memory = c.server.memory.in.Get().(*inMemory)
	c.tried, c.tryErr = c.tls.readNow(fd, c.memory.bytes[:])
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
