// Package front is the HTTP server of the proxy: it serves HTTP/1.1 and HTTP/2 to clients.
//
// An HTTP/1.1 connection has one goroutine and no timer. While it waits for a request, it holds no memory
// except for the state of TLS. It borrows memory when a request arrives. Handlers set the deadlines for reading
// a body and for clients that are slow to take an answer. A sweep (see wait.go) closes connections that wait
// too long for a request or for the rest of its head. While a handler works, no goroutine waits for the client
// to disconnect: the handler checks this with Response.Look.
package front

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/http1"
)

// Options are a server's limits and callbacks.
type Options struct {
	Header  time.Duration // longest time from the first byte of a request to the end of its head; 0: no limit
	Idle    time.Duration // longest time between two requests; 0: no limit
	MaxHead int           // largest head of a request, in bytes
	// Context derives a connection's context from the server's.
	Context func(context.Context, net.Conn) context.Context
	// Table bounds how many connections are open.
	Table *connlimit.Table
	// Peer returns the address of a connection's other end, and whether it is a trusted proxy, which may name its client
	// (Entrance.Proxied). The server calls it for each new connection, and again when a PROXY header has named the client.
	Peer func(remote string) (peer netip.Addr, trusted bool)
	// Stepped is called concurrently for each Step of a connection, with an error if the step failed.
	Stepped func(step Step, result Result, remote string, err error)
	// Refused is called concurrently for each head that this package answers itself, because the head
	// is malformed or late.
	Refused func()
	Log     *zap.Logger
}

// Server serves HTTP/1.1 and HTTP/2.
type Server struct {
	handler   http.Handler
	o         Options
	began     time.Time
	conns     Roster[conn]
	memory    memories
	long      *connlimit.Share // bounds the number of heads larger than inSize that are read at a time
	turns     *turns           // limits the handshakes that compute
	addresses *addresses
	unspent   unspent
	secure    *tls.ConnectionState // TLS state of all requests over TLS, which only shows that they use TLS

	sweeps sync.Once
	over   context.Context // ends when the sweep must end
	stop   context.CancelFunc

	ends atomic.Bool // whether StopListening was called; changes only while mu is held

	mu        sync.Mutex // guards the field below
	listeners []net.Listener
}

// NewServer makes a Server. It passes a *Response or a *Stream to the handler. The handler owns the request
// and its header until it returns, or indefinitely after Keep.
func NewServer(h http.Handler, o Options) *Server {
	s := &Server{handler: h, o: o, began: time.Now(), long: connlimit.NewShare(mostLong), addresses: newAddresses(), unspent: newUnspent()}
	s.turns = newTurns(max(1, runtime.GOMAXPROCS(0)/2)) // the other CPUs remain for requests
	s.secure = &tls.ConnectionState{HandshakeComplete: true}
	s.over, s.stop = context.WithCancel(context.Background())
	s.memory.init()
	return s
}

// Serve serves a listener until Accept fails. After StopListening, Shutdown or Close it returns
// http.ErrServerClosed. The Entrance describes how its connections begin.
func (s *Server) Serve(l net.Listener, e Entrance) error {
	if !s.begin(l) {
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	defer l.Close()
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.accept(c, &e)
		case s.ends.Load():
			return http.ErrServerClosed
		default:
			return err
		}
	}
}

func (s *Server) accept(c net.Conn, e *Entrance) {
	x := s.newConn(c, e)
	if !x.enter(c.RemoteAddr().String()) {
		return
	}
	x.waits(time.Now())
	s.conns.Add(&x.RosterEntry, x)
	if e.TLS != nil || e.Proxied {
		go x.start()
		return
	}
	go x.serve()
}

func (s *Server) begin(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends.Load() {
		return false
	}
	s.listeners = append(s.listeners, l)
	s.sweeps.Do(func() { go s.sweep() })
	return true
}

// StopListening closes the listeners. Serve then returns http.ErrServerClosed.
func (s *Server) StopListening() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends.Store(true)
	for _, l := range s.listeners {
		if e := l.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	s.listeners = nil
	return err
}

// Shutdown closes the listeners and all connections that wait for a request, and waits for the
// others. If the context ends first, Shutdown returns the context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.StopListening()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := 0
		s.conns.Each(func(c *conn) {
			left++
			c.cutIdle(time.Now())
		})
		if left == 0 {
			s.stop()
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// Close closes all connections at once.
func (s *Server) Close() error {
	err := s.StopListening()
	s.conns.Each(func(c *conn) {
		_ = c.Close()      // the connection may already be closed
		c.presence.leave() // afterwards, because the handler then ends its answer as if it were complete
	})
	s.stop()
	return err
}

const (
	// inSize, in bytes, is enough for the heads of nearly all requests, and for the bytes that are read together with the
	// end of a longer head, which gets more memory.
	inSize = http1.Step
	// outSize, in bytes, is enough for the head of an answer, or for a whole short answer.
	outSize = 8 << 10
)

// memories lends memory to requests. Its methods may be called concurrently.
type memories struct {
	in, out, ones, responses, streams, frames, readings, records sync.Pool

	lower, canonical spellings
	date             atomic.Pointer[date]
}

// date is a second as text.
type date struct {
	unix int64
	text string
}

// now returns the Date field for an answer without one (RFC 9110, 6.6.1). It writes each second once.
func (m *memories) now() string {
	now := time.Now()
	if d := m.date.Load(); d != nil && d.unix == now.Unix() {
		return d.text
	}
	d := &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
	m.date.Store(d)
	return d.text
}

func (m *memories) init() {
	m.in.New = func() any { return new([inSize]byte) }
	m.out.New = func() any { return new([outSize]byte) }
	m.ones.New = func() any { return new([1][]byte) }
	m.responses.New = func() any { return &Response{exchange: newExchange()} }
	m.lower.spell, m.canonical.spell = strings.ToLower, http.CanonicalHeaderKey
	m.lower.known.Store(&map[string]string{})
	m.canonical.known.Store(&map[string]string{})
	m.frames.New = func() any { return new([sendSize]byte) }
	m.records.New = func() any { return bufio.NewWriterSize(nil, sendSize) }
	m.readings.New = func() any { return newReading() }
	m.streams.New = func() any { return newStream() }
}
