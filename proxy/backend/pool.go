// Package backend is the HTTP client of the proxy: it sends requests to a backend over HTTP/1.1.
//
// A request without a body, or with a small one that has arrived, needs no goroutine except the caller's.
// A request borrows the memory for its head and its answer, and an idle connection holds none.
//
// # Retries
//
// The backend may close an idle connection at any moment, even while a request is in transit. If no byte of an
// answer has arrived, or only the rest of an earlier one, and the request may be repeated (it has an idempotent
// method and no body; RFC 9110, 9.2.2), it is sent again over a new connection. Before a connection is reused, the
// pool checks whether the backend has closed it, so requests that can't be repeated rarely fail for this reason.
package backend

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostIdle is the largest number of idle connections. It is large because otherwise many simultaneous
	// clients would make the pool open a connection for each request.
	mostIdle = 1024
	// idleFor is how long a connection may be idle before it is closed. It is short because an idle
	// connection holds a worker of Apache.
	idleFor = time.Second
)

// Dial opens a connection.
type Dial func(ctx context.Context) (net.Conn, error)

// Pool keeps connections to a backend. Its methods may be called concurrently.
type Pool struct {
	dial          Dial
	answerTimeout time.Duration // time limit for the head of an answer; 0: no limit
	idleFor       time.Duration // how long a connection may be idle; tests change it
	host          string        // Host for requests without one
	memory        sync.Pool     // holds *[memorySize]byte
	answers       sync.Pool     // holds *Answer
	crowded       atomic.Bool   // set by Crowd

	mu     sync.Mutex // guards the fields below
	idle   []*Conn    // idle connections, the newest last
	sweeps *time.Timer
	closed bool
}

// memorySize is the size, in bytes, of the memory that a request borrows for its head and its answer. A small
// answer fits in it completely.
const memorySize = 32 << 10

// NewPool makes a Pool without connections. The timeout limits the time from the end of a request to the head
// of its answer; 0: no limit. Requests without a Host get host.
func NewPool(dial Dial, host string, timeout time.Duration) *Pool {
	p := &Pool{dial: dial, host: host, answerTimeout: timeout, idleFor: idleFor}
	p.memory.New = func() any { return new([memorySize]byte) }
	p.answers.New = func() any { return new(Answer) }
	return p
}

// newestIdle returns the connection that became idle last, or nil. It checks whether the backend has closed the
// connection, unless talk will check this.
func (p *Pool) newestIdle(r *Request) *Conn {
	for {
		p.mu.Lock()
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1], p.idle = nil, p.idle[:n-1]
		p.mu.Unlock()
		if c.bare && r.Body == nil || c.isClean() && c.isSilent() {
			return c
		}
		_ = c.Close() // the backend has closed it
	}
}

// put makes a connection idle.
func (p *Pool) put(c *Conn) {
	now := time.Now()
	c.idle = now
	p.mu.Lock()
	if keep := !p.closed && len(p.idle) < mostIdle && !p.crowded.Load(); keep {
		p.idle = append(p.idle, c)
		if p.sweeps == nil {
			p.sweeps = time.AfterFunc(p.idleFor, p.sweep)
		}
		c = nil
	}
	p.mu.Unlock()
	if c != nil {
		_ = c.Close() // there are too many idle connections
	}
}

// Crowd tells the pool whether connections wait for the backend to accept them. As long as some wait, no
// connection stays idle, because an idle connection may hold a worker that could accept a waiting one.
func (p *Pool) Crowd(on bool) {
	if p.crowded.Swap(on) == on || !on {
		return
	}
	p.mu.Lock()
	old := p.idle
	p.idle = nil
	p.mu.Unlock()
	closeAll(old)
}

// sweep closes connections that were idle for too long.
func (p *Pool) sweep() {
	now := time.Now()
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && now.Sub(p.idle[n].idle) >= p.idleFor {
		n++
	}
	old := append([]*Conn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	clear(p.idle[len(p.idle):cap(p.idle)])
	if p.sweeps = nil; len(p.idle) > 0 {
		p.sweeps = time.AfterFunc(p.idleFor-now.Sub(p.idle[0].idle), p.sweep)
	}
	p.mu.Unlock()
	closeAll(old)
}

// Close closes the idle connections. Connections in use are closed when their requests are done.
func (p *Pool) Close() {
	p.mu.Lock()
	old := p.idle
	p.idle, p.closed = nil, true
	if p.sweeps != nil {
		p.sweeps.Stop()
	}
	p.mu.Unlock()
	closeAll(old)
}

func closeAll(conns []*Conn) {
	for _, c := range conns {
		_ = c.Close() // no request uses it
	}
}
