package h2bound

import (
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a connection is bounded by. The zero value is of use.
type Options struct {
	// Clients is how many clients' requests a connection carries: 1 or more, 0 means
	// 1. All bounds are multiplied by it. A proxy in front carries many.
	Clients int
	// Flooded, unless it is nil, is told of each connection before it is closed for a
	// flood. It may be called for several at once, and must not read or write.
	Flooded func(c net.Conn, why Flood)
	// Addresses bound the connections of Client, an address, together; nil: each is
	// bounded by itself.
	Addresses *Addresses
	Client    netip.Addr
}

// Conn is a connection that is closed when its client floods it. It may be used
// concurrently, as a net.Conn may.
type Conn struct {
	net.Conn
	options Options
	began   time.Time
	address *address // nil: it is bounded by itself
	left    sync.Once
	plain   atomic.Bool // it is not HTTP/2

	mu     sync.Mutex // guards the following
	bounds *bounds    // nil: it is not HTTP/2
	ahead  int        // bytes that were followed, and that could not be written
	flood  Flood      // why it was closed, or ""
}

// New bounds a connection from which nothing has been read yet. One that turns out not
// to be HTTP/2 is left alone. HTTP/2 has to be in the clear here: where there is TLS,
// it is below.
func New(c net.Conn, o Options) *Conn {
	b := newBounds(max(1, o.Clients))
	b.began = time.Now()
	if o.Addresses != nil {
		b.address = o.Addresses.enter(o.Client)
	}
	return &Conn{Conn: c, options: o, began: b.began, bounds: b, address: b.address}
}

// Unwrap returns the connection below one that is bounded, and any other as it is.
func Unwrap(c net.Conn) net.Conn {
	if bounded, ok := c.(*Conn); ok {
		return bounded.Conn
	}
	return c
}

// Read reads from the client. Of a flood it returns nothing but a Flood, and the
// connection is closed. It may wait for some ms with what it has read.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n <= 0 || c.plain.Load() {
		return n, err
	}
	pause, flood := c.follow(p[:n])
	if flood != nil {
		return 0, flood
	}
	time.Sleep(pause)
	return n, err
}

// Write writes to the client. What is written is counted before it goes out: the
// client may answer it at once.
func (c *Conn) Write(p []byte) (int, error) {
	if c.plain.Load() {
		return c.Conn.Write(p)
	}
	if err := c.announce(p); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if n < len(p) {
		c.mu.Lock()
		c.ahead += len(p) - max(n, 0) // written again after a timeout
		c.mu.Unlock()
	}
	return n, err
}

// Streams is how many streams there are: requests that are not complete, or whose answer the client
// was not sent to its end.
func (c *Conn) Streams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bounds == nil {
		return 0
	}
	return len(c.bounds.streams)
}

// CloseWrite closes the connection for writing, where that can be done.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close closes the connection.
func (c *Conn) Close() error {
	if c.address != nil {
		c.left.Do(func() { c.address.leave(time.Now()) })
	}
	return c.Conn.Close()
}

// follow counts what the client has sent, and tells how long to wait before more is read.
func (c *Conn) follow(p []byte) (pause time.Duration, flood error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.survive(&flood)
	if c.flood == "" && c.bounds != nil {
		now := time.Since(c.began)
		isHTTP2, why := c.bounds.read(now, p)
		pause = c.bounds.pause(now)
		if !isHTTP2 {
			c.bounds = nil
			c.plain.Store(true)
		}
		c.end(why)
	}
	return pause, c.flooded()
}

// announce counts what the server is about to send.
func (c *Conn) announce(p []byte) (flood error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.survive(&flood)
	if c.flood == "" && c.bounds != nil {
		again := min(c.ahead, len(p))
		c.ahead -= again
		c.end(c.bounds.write(time.Since(c.began), p[again:]))
	}
	return c.flooded()
}

// survive closes a connection that cannot be followed, as there is a panic: the goroutines of package
// net/http that read and write frames would end the process.
func (c *Conn) survive(flood *error) {
	if p := recover(); p != nil {
		c.end(Flood(fmt.Sprintf("it cannot be followed: %v\n%s", p, debug.Stack())))
		*flood = c.flooded()
	}
}

// end closes the connection if there is a reason.
func (c *Conn) end(why Flood) {
	if why == "" {
		return
	}
	c.flood = why
	if c.options.Flooded != nil {
		c.options.Flooded(c, why)
	}
	_ = c.Close() // what counts is that it is not read any more
}

// flooded returns why the connection was closed, or nil.
func (c *Conn) flooded() error {
	if c.flood == "" {
		return nil
	}
	return c.flood
}
