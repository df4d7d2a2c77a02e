// Package backend asks a backend over HTTP/1.1. It is the client's side of the proxy.
//
// The usual request, which has no body or a small one that is there, is sent and
// answered by the goroutine that asks; it needs no other. A request's memory is lent
// to it, and a connection that waits has none.
//
// # Asked again
//
// The backend may close an idle connection at any moment, also when a request is on its way. If
// nothing of an answer came then, and the request may be repeated (RFC 9110, 9.2.2: a method
// that is idempotent, and no body), it is sent once more, over a new connection. Whether the
// backend has closed it is looked at before it is used, so that this is rare for the others as
// well.
package backend

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostIdle is how many connections wait for a request: enough that a crowd does
	// not connect again for each one.
	mostIdle = 1024
	// idleFor is for how long one waits: it holds a worker of Apache's in the meantime.
	idleFor = time.Second
)

// Dial opens a connection.
type Dial func(ctx context.Context) (net.Conn, error)

// Pool keeps connections to a backend. Its methods may be called concurrently.
type Pool struct {
	dial          Dial
	answerTimeout time.Duration // for the head of an answer; 0: any
	idleFor       time.Duration // see there; longer in tests of other things
	host          string        // of requests that name none
	memory        sync.Pool     // of *[memorySize]byte
	answers       sync.Pool     // of *Answer
	crowded       atomic.Bool   // see Crowd

	mu     sync.Mutex // guards the following
	idle   []*Conn    // the newest last
	sweeps *time.Timer
	closed bool
}

// memorySize is how much a request borrows: to write its head and to read its answer, of which
// a small one comes in one piece, its end included.
const memorySize = 32 << 10

// NewPool makes a Pool that connects to nothing yet. The head of an answer has to come
// within the timeout after the request was sent; 0: whenever it may. Host is that of
// requests that name none.
func NewPool(dial Dial, host string, timeout time.Duration) *Pool {
	p := &Pool{dial: dial, host: host, answerTimeout: timeout, idleFor: idleFor}
	p.memory.New = func() any { return new([memorySize]byte) }
	p.answers.New = func() any { return new(Answer) }
	return p
}

// newestIdle returns the connection that has been idle for the shortest time; nil: none is idle. A
// request that checks the connection itself (talk) gets it unchecked.
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
		if c.talksAbout(r) || c.isClean() && c.isSilent() {
			return c
		}
		_ = c.Close() // the backend has closed it
	}
}

// put keeps a connection for the next request.
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
		_ = c.Close() // one too many
	}
}

// Crowd says whether connections wait until the backend accepts them. As long as they do none is
// kept for the next request: each may hold a worker in the meantime, which could accept one that waits.
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

// sweep closes those that have waited for too long.
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

// Close closes the connections that wait. Those in use are closed when they are done.
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
		_ = c.Close() // nothing was under way
	}
}
