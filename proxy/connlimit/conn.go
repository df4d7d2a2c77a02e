package connlimit

import (
	"io"
	"sync/atomic"
	"time"
)

// Conn is a connection in a Table. Idle and Busy are for one goroutine at a time, the one
// that serves the connection; Leave is for any.
type Conn struct {
	state   atomic.Int64 // see waiting
	address *address
	closer  io.Closer

	// Guarded by Table.mu:
	since int64 // what its place in line says: waiting since then or later
	at    int32 // index in address.conns
}

// What a connection does: the two low bits of its state. Above them, of one that waits,
// is since when, in nanoseconds since Table.start.
const (
	waiting    = iota // for its client; in line
	busy              // with a request; in line still
	passedOver        // with a request; it was first in line and has left it
	gone              // shed, or left
	activity   = 3    // the bits

	sinceShift = 2
)

// waitingSince is the state of a connection that waits since then.
func waitingSince(since int64) int64 { return since << sinceShift }

// Busy tells that a request is under way. It returns false if the connection was closed,
// to make room, before it could be told; then nothing may be done for the request.
func (c *Conn) Busy() bool {
	for {
		s := c.state.Load()
		switch s & activity {
		case gone:
			return false
		case waiting:
			if !c.state.CompareAndSwap(s, busy) {
				continue // closed just now
			}
		}
		return true
	}
}

// Idle tells that the connection waits for its client's next request from now on. It
// returns false if the connection was closed to make room.
func (c *Conn) Idle(now time.Time) bool {
	t := c.address.table
	for {
		s := c.state.Load()
		switch s & activity {
		case gone:
			return false
		case passedOver:
			return t.lineUp(c, now)
		}
		if c.state.CompareAndSwap(s, waitingSince(t.at(now))) {
			return true
		}
	}
}

// Leave tells that the connection is closed. It may be called again, and after the
// connection was shed.
func (c *Conn) Leave() {
	t := c.address.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state.Swap(gone)&activity != gone {
		t.remove(c)
	}
}
