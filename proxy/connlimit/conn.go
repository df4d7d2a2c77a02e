package connlimit

import (
	"io"
	"sync/atomic"
	"time"
)

// Conn is a connection in a Table. Idle and Busy are for one goroutine at a time, the one
// that serves the connection; Leave is for any.
type Conn struct {
	state  atomic.Int64 // see waiting
	table  *Table
	closer io.Closer
	groups [kinds]*group

	// at is where it is in the conns of its groups, and in Table.conns. Table.mu guards it.
	at [kinds + 1]int32
}

// What a connection does: the two low bits of its state. Above them, of one that waits,
// is since when, in nanoseconds since Table.start.
const (
	waiting  = iota // for its client
	busy            // with a request
	gone            // shed, or left
	activity = 3    // the bits

	sinceShift = 2
)

// waitingSince is the state of a connection that waits since then.
func waitingSince(since int64) int64 { return since << sinceShift }

func (c *Conn) isWaiting() bool { return c.state.Load()&activity == waiting }

// since is since when a connection that waits does so.
func (c *Conn) since() int64 { return c.state.Load() >> sinceShift }

// Busy tells that a request is under way. It returns false if the connection was closed,
// to make room, before it could be told; then nothing may be done for the request.
func (c *Conn) Busy() bool { return c.turn(busy) }

// Idle tells that the connection waits for its client's next request from now on. It
// returns false if the connection was closed to make room.
func (c *Conn) Idle(now time.Time) bool { return c.turn(waitingSince(c.table.at(now))) }

func (c *Conn) turn(to int64) bool {
	for {
		s := c.state.Load()
		if s&activity == gone {
			return false
		}
		if c.state.CompareAndSwap(s, to) {
			return true
		}
	}
}

// give marks a connection as gone, one with a request only if that is to be cut. It returns
// false if the connection has changed in the meantime.
func (c *Conn) give(cuts bool) bool {
	s := c.state.Load()
	if s&activity == gone || s&activity == busy && !cuts {
		return false
	}
	return c.state.CompareAndSwap(s, gone)
}

// Leave tells that the connection is closed. It may be called again, and after the
// connection was shed.
func (c *Conn) Leave() {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state.Swap(gone)&activity != gone {
		t.remove(c)
	}
}
