package front

import "time"

// The states of a connection. It works on a request, is over, was woken as it waits for a
// request for long, or as the rest of one's head is late; else it waits, and the state is
// since when (Server.at), odd if it waits for a request, even if for the rest of a head.
const (
	working   = 0
	over      = 1
	late      = 2
	woken     = 3
	leastWait = 16
)

// restAfter is how long a connection waits before it is woken, so that another goroutine
// waits on: so many large stacks are there at a time as connections were used since.
const restAfter = time.Second / 4

// at is a time as the state of a connection, in nanoseconds.
func (s *Server) at(t time.Time) int64 { return int64(t.Sub(s.began)) + leastWait }

// begin says that a request has begun to come. It tells whether the connection was woken.
func (c *conn) begin(now time.Time) (wasWoken bool) {
	head := c.server.at(now) &^ 1
	if c.state.CompareAndSwap(c.idle, head) {
		return false
	}
	return c.rouse(woken, head)
}

// work says that the head of a request has come, or that none will. It returns false if
// the connection was closed meanwhile.
func (c *conn) work() bool {
	for {
		switch was := c.state.Load(); {
		case was == over:
			return false
		case was == late:
			c.rouse(late, working)
			return true
		case c.state.CompareAndSwap(was, working):
			return true
		}
	}
}

// rouse goes on with a connection that was woken. It returns false if it was not.
func (c *conn) rouse(from, to int64) bool {
	c.waking.Lock() // until the deadline is set
	defer c.waking.Unlock()
	if !c.state.CompareAndSwap(from, to) {
		return false
	}
	_ = c.SetReadDeadline(time.Time{}) // a connection that is closed says so when it is read
	return true
}

// waits says that the connection waits for a request. It returns false if it was closed for
// another one.
func (c *conn) waits(now time.Time) bool {
	c.idle = c.server.at(now) | 1
	c.state.Store(c.idle)
	return c.place == nil || c.place.Idle(now)
}

// waitsAnew says that a connection that has begun waits for its first request. It returns false
// if it was closed meanwhile.
func (c *conn) waitsAnew(now time.Time) bool {
	was := c.idle
	c.idle = c.server.at(now) | 1
	return c.state.CompareAndSwap(was, c.idle) && (c.place == nil || c.place.Idle(now))
}

// sweepEvery is how often connections are looked at whose clients may take so long.
func sweepEvery(header, idle time.Duration) time.Duration {
	least := restAfter
	for _, d := range []time.Duration{header, idle} {
		if d > 0 {
			least = min(least, d/8)
		}
	}
	return max(least, 5*time.Millisecond)
}

// sweep closes connections that have waited for too long, and wakes who holds a large
// stack meanwhile, until the server ends.
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
	state := c.state.Load()
	if state < leastWait {
		return
	}
	waited, inHead := time.Duration(c.server.at(now)-state), state&1 == 0
	limit := c.server.o.Idle
	if inHead || !c.served.Load() { // a new one has as long as for a head
		limit = c.server.o.Header
	}
	switch tooLong := limit > 0 && waited >= limit; {
	case tooLong && inHead:
		c.wake(state, late)
	case tooLong:
		c.cut(state)
	case !inHead && waited >= restAfter && c.served.Load() && !c.rested.Load():
		c.wake(state, woken)
	}
}

// cut closes a connection that is in that state.
func (c *conn) cut(state int64) {
	if c.state.CompareAndSwap(state, over) {
		_ = c.Close()
	}
}

// wake has a connection look up that waits.
func (c *conn) wake(from, to int64) {
	c.waking.Lock()
	defer c.waking.Unlock()
	if c.state.CompareAndSwap(from, to) {
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}
