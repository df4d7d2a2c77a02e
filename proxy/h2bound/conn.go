// Package h2bound bounds what one connection of HTTP/2 can make a server do. It stands
// before the server, which is net/http's, and closes a connection that floods it.
//
// # What a flood is
//
// HTTP/2 carries many requests over one connection, in frames, and has frames of its
// own to run the connection. Almost every type of frame has the server work, and costs
// the client nothing. A server that does whatever it is asked can be kept busy by one
// connection, without a request that anybody could count:
//
//   - A stream that is opened and given up at once has the server start a request for
//     nobody (rapid reset, CVE-2023-44487). The client may also have the server give it
//     up, by a frame that is not allowed there (MadeYouReset, CVE-2025-8671).
//   - PING and SETTINGS have to be acknowledged, PRIORITY is looked up, frames of types
//     unknown are read and thrown away (CVE-2019-9512, 9513, 9515).
//   - DATA and CONTINUATION may be empty, or as good as empty, so that a message never
//     ends (CVE-2019-9518, CVE-2023-45288).
//   - A window that opens by a byte has the server send a byte (CVE-2019-9511).
//
// # What is done about it
//
// A connection has a budget of each, argued from what honest clients do. Where honest use has no bound, it is earned: who was sent much
// may tell often that it has been read. So what the server sends is followed, too: of
// both directions the frames' headers are looked at, and of what is in them
// only by how much a window grows, and why a stream is reset. No byte is changed.
// Whoever exceeds a budget has the connection
// closed, long before it has cost a second of CPU. Only who sends DATA in small pieces,
// as an honest stream of messages may, is read more slowly instead.
//
// Requests that are not answered are counted for all connections of an address as well,
// as a new connection has new budgets.
//
// What a request costs is not looked at here, nor how many there are: they reach the
// handler, where they are counted. Only those that are given up before their answer is
// complete are bounded here: the handler sees them too late.
package h2bound

import (
	"encoding/binary"
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

// preface is what a client of HTTP/2 sends first (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

const (
	headerSize = 9 // of a frame, in bytes
	valueSize  = 4 // of what is looked at behind it, in bytes
)

// kind is the type of a frame. Types that are not named here all cost the same.
type kind byte

const (
	data         kind = 0x0
	headers      kind = 0x1
	resetStream  kind = 0x3
	settings     kind = 0x4
	ping         kind = 0x6
	goAway       kind = 0x7
	windowUpdate kind = 0x8
	continuation kind = 0x9
)

const (
	endStream = 0x1 // of DATA and HEADERS
	ack       = 0x1 // of SETTINGS and PING
)

// frame is a frame without its payload.
type frame struct {
	length int // of the payload, in bytes
	kind   kind
	flags  byte
	stream uint32
	value  uint32 // the payload of WINDOW_UPDATE and of RST_STREAM, else 0
}

func (f frame) ends() bool         { return f.flags&endStream != 0 }
func (f frame) acknowledges() bool { return f.flags&ack != 0 }

// scanner follows the frames of one direction of a connection. It copies their
// headers, and of two types the four bytes behind them.
type scanner struct {
	begin [headerSize + valueSize]byte // of the frame that comes, as far as it has
	have  int                          // bytes of it
	skip  int                          // bytes of a payload that are still to come
}

// next follows p to the next frame that can be told, and returns it with the rest of
// p. It is false where p ends before.
func (s *scanner) next(p []byte) (f frame, rest []byte, ok bool) {
	n := min(len(p), s.skip)
	s.skip -= n
	for p = p[n:]; len(p) > 0; {
		n := copy(s.begin[s.have:s.need()], p)
		s.have += n
		p = p[n:]
		if s.have == s.need() {
			f = s.frame()
			s.skip = f.length - (s.have - headerSize)
			s.have = 0
			return f, p, true
		}
	}
	return frame{}, nil, false
}

// need is how many bytes a frame begins with before it can be told.
func (s *scanner) need() int {
	if s.have < headerSize {
		return headerSize
	}
	switch kind(s.begin[3]) {
	case windowUpdate, resetStream:
		return headerSize + min(valueSize, s.length())
	default:
		return headerSize
	}
}

func (s *scanner) length() int {
	return int(s.begin[0])<<16 | int(s.begin[1])<<8 | int(s.begin[2])
}

func (s *scanner) frame() frame {
	const reserved = 1 << 31
	f := frame{
		length: s.length(),
		kind:   kind(s.begin[3]),
		flags:  s.begin[4],
		stream: binary.BigEndian.Uint32(s.begin[5:]) &^ reserved,
	}
	if s.have == headerSize+valueSize {
		f.value = binary.BigEndian.Uint32(s.begin[headerSize:])
		if f.kind == windowUpdate {
			f.value &^= reserved
		}
	}
	return f
}
