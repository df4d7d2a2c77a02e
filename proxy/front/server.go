package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/roster"
	"tempomat/proxy/subscriber"
)

// Options bound what a client can hold open before it has sent a request.
type Options struct {
	Header  time.Duration // from the first byte of a request to the end of its head; 0: any
	Idle    time.Duration // between two requests; 0: any
	MaxHead int           // of a request, in bytes
	// Context is for a connection's requests, made of the server's; nil: that.
	Context func(context.Context, net.Conn) context.Context
	// HTTP2 takes over a connection that begins as HTTP/2 does; nil: there is none.
	HTTP2 func(*Turned)
	// Enter bounds how many connections there are: it is asked for each new one, and again where
	// a proxy tells who the client is, and returns nil if it has closed that one; nil: there is no
	// bound.
	Enter func(c io.Closer, remote string) Place
	// Trusts tells whether a peer may say who its client is (Entrance.Proxied); nil: nobody may.
	Trusts func(remote string) bool
	// Stepped is told of each Step that a connection has done, or has not: then there is an
	// error. It is called concurrently. nil: nobody is told.
	Stepped func(step Step, result Result, remote string, err error)
	// Refused is told of each head that is answered here, as it is no request or is late; nil:
	// nobody is. It is called concurrently.
	Refused func()
	Log     *zap.Logger
}

// Place is a connection's among those that may be open. Where there are too many it may be
// closed by others, mostly while it is not busy; then Busy and Idle return false. These are
// for one goroutine at a time, the one that serves the connection; Leave is for any.
type Place interface {
	Busy() bool              // a request is under way from now on
	Idle(now time.Time) bool // the connection waits for its client from now on
	Leave()                  // it is closed, or about to be; it may be called again
}

// Server serves HTTP/1.1.
type Server struct {
	handler http.Handler
	o       Options
	began   time.Time
	conns   roster.Roster[conn]
	memory  memories
	dates   dates
	long    *subscriber.Share    // of heads under way that are long
	turns   *turns               // of handshakes
	secure  *tls.ConnectionState // of all requests that came over TLS: that they did is all that it tells

	mu        sync.Mutex // guards the following
	listeners []net.Listener
	ends      bool
	sweeps    bool
	closed    chan struct{} // no connection is left
}

// NewServer makes a Server. It calls the handler with a *Response; a request and its header
// are the handler's until it returns, or for good after Keep.
func NewServer(h http.Handler, o Options) *Server {
	s := &Server{handler: h, o: o, began: time.Now(), closed: make(chan struct{}), long: subscriber.NewShare(mostLong)}
	s.turns = newTurns(max(1, runtime.GOMAXPROCS(0)/2)) // the other CPUs are for requests
	s.secure = &tls.ConnectionState{HandshakeComplete: true}
	s.memory.init()
	return s
}

// Serve serves a listener, whose connections begin as e says, until that fails, or Shutdown or Close is called: then it
// returns http.ErrServerClosed.
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
		case s.isEnding():
			return http.ErrServerClosed
		default:
			return err
		}
	}
}

func (s *Server) accept(c net.Conn, e *Entrance) {
	var place Place
	if s.o.Enter != nil {
		if place = s.o.Enter(c, c.RemoteAddr().String()); place == nil {
			return
		}
	}
	x := s.newConn(c, e, place)
	x.waits(time.Now())
	s.conns.Add(&x.Entry, x)
	if e.begins() {
		go x.greet()
		return
	}
	go x.serve()
}

func (s *Server) begin(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends {
		return false
	}
	s.listeners = append(s.listeners, l)
	if !s.sweeps {
		s.sweeps = true
		go s.sweep()
	}
	return true
}

func (s *Server) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

// end closes the listeners.
func (s *Server) end() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = true
	for _, l := range s.listeners {
		if e := l.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	s.listeners = nil
	return err
}

// Shutdown accepts no further connection, closes those that wait for a request, and waits
// for the others until the context ends: then it returns its error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.end()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left := 0
		s.conns.Each(func(c *conn) {
			left++
			if state := c.state.Load(); state >= leastWait && state&1 == 1 {
				c.cut(state)
			}
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

// Close closes all connections, whatever goes on there.
func (s *Server) Close() error {
	err := s.end()
	s.conns.Each(func(c *conn) {
		c.presence.leave()
		_ = c.Close() // it may be closed already
	})
	s.stop()
	return err
}

// stop ends the sweep.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
}
