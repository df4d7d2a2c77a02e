package backend

import (
	"context"
	"sync"
	"time"
)

// Call is what one client asks of the backend, one request after the other. Cancel may
// be called at any time.
type Call struct {
	mu        sync.Mutex // guards the following
	conn      *Conn      // in use; nil: none
	noted     *estimated // of the connection that was used last; nil: none was
	stop      context.CancelFunc
	cancelled bool
}

// Cancel gives up the request that is under way, and the connection that it uses.
func (c *Call) Cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = true
	if c.stop != nil {
		c.stop()
	}
	if c.conn != nil {
		_ = c.conn.Close() // it is of no use any more
	}
}

// Begin readies it for the next request.
func (c *Call) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled, c.noted = false, nil
}

// use says which connection is in use; nil: none. It returns false if the request
// was given up.
func (c *Call) use(conn *Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	if conn != nil {
		c.noted = conn.estimated
	}
	if c.cancelled && conn != nil {
		_ = conn.Close()
	}
	return !c.cancelled
}

// Conn is the connection that the request uses which is under way; nil: none.
func (c *Call) Conn() *Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn
}

// AddEstimated notes on the connection that the request used last, also where another one has it
// by now, the CPU time that it was estimated to have used: see Conn.Estimated.
func (c *Call) AddEstimated(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted != nil {
		c.noted.ns.Add(int64(d))
	}
}

// IsOpening tells whether a connection is being opened for the request that is under way, and it has had
// none before: the backend knows nothing of it.
func (c *Call) IsOpening() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop != nil && c.noted == nil
}

// WasAsked tells whether a connection was there for the request: the backend may know of it.
func (c *Call) WasAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.noted != nil
}

func (c *Call) isCancelled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cancelled
}

// dial opens a connection, unless the request is given up meanwhile.
func (c *Call) dial(d Dial) (*Conn, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.mu.Lock()
	if c.stop = stop; c.cancelled {
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
