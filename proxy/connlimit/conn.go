package connlimit

import (
	"io"
	"net/netip"
	"sync/atomic"
	"time"
)

// Conn is a connection in a Table. Only the goroutine that serves the connection may call Idle and Busy; any
// goroutine may call Leave.
type Conn struct {
	state  atomic.Int64 // activity of the connection; see waiting
	table  *Table
	closer io.Closer
	from   netip.Addr

	groups [kinds]*group // groups of the connection's address; Table.mu guards this field and the next one
	at     int32         // index of the connection in Table.conns
}

// These are the activities of a connection, in the two low bits of its state. If the connection waits, the
// other bits hold the time when the wait began, in nanoseconds since Table.start.
const (
	waiting  = iota // the connection waits for its client
	busy            // the connection serves a request
	gone            // the connection was closed to make room, or Leave was called
	activity = 3    // mask of the two low bits

	sinceShift = 2
)

// waitingSince returns the state of a connection that has been waiting since the given time.
func waitingSince(since int64) int64 { return since << sinceShift }

func (c *Conn) isWaiting() bool { return c.state.Load()&activity == waiting }

// since returns when a waiting connection began to wait.
func (c *Conn) since() int64 { return c.state.Load() >> sinceShift }

// Busy records that a request is in progress. It returns false if the connection was closed to make room; in
// that case, the request must not be served.
func (c *Conn) Busy() bool { return c.turn(busy) }

// Idle records that the connection now waits for the client's next request. It returns false if the connection
// was closed to make room.
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

// give marks a connection as gone, so that the caller may close it. It marks a connection that serves a request
// only if cuts is set. It returns false if the state of the connection has changed in the meantime.
func (c *Conn) give(cuts bool) bool {
	s := c.state.Load()
	if s&activity == gone || s&activity == busy && !cuts {
		return false
	}
	return c.state.CompareAndSwap(s, gone)
}

// Leave records that the connection is closed. It may be called several times, and also for a connection that
// was closed to make room.
func (c *Conn) Leave() {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state.Swap(gone)&activity != gone {
		t.remove(c)
	}
}
