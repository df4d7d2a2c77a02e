// Package front serves HTTP/1.1 and HTTP/2 to clients. It is the server's side of the proxy.
//
// A connection of HTTP/1.1 has one goroutine and no other, no timer, and while it waits for a request no
// memory except what TLS keeps: it borrows the memory that a request needs. Handlers set
// deadlines for reading a body and for clients that are slow to take an answer; the sweep looks
// after connections that wait, for a request or for the rest of its head. No goroutine waits at the
// connection for its client to leave while a handler works: the handler looks (Response.Look).
package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/http1"
)

// Options bound what a client can hold open before it has sent a request.
type Options struct {
	Header  time.Duration // from the first byte of a request to the end of its head; 0: any
	Idle    time.Duration // between two requests; 0: any
	MaxHead int           // of a request, in bytes
	// Context is for a connection's requests, made of the server's; nil: that.
	Context func(context.Context, net.Conn) context.Context
	// Enter bounds how many connections there are: it is asked for each new one, and again where
	// a proxy tells who the client is, and returns nil if it has closed that one; nil: there is no
	// bound.
	Enter func(c io.Closer, remote string) Place
	// Trusts reports whether a peer may name its client (Entrance.Proxied); nil: none may.
	Trusts func(remote string) bool
	// Stepped is called for each Step of a connection; with an error if it failed. It is called
	// concurrently, and may be nil.
	Stepped func(step Step, result Result, remote string, err error)
	// Refused is called for each head that is answered here, because it isn't a request or is
	// late. It is called concurrently, and may be nil.
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

// Server serves HTTP/1.1 and HTTP/2.
type Server struct {
	handler   http.Handler
	o         Options
	began     time.Time
	conns     Roster[conn]
	memory    memories
	dates     dates
	long      *connlimit.Share // of heads under way that are long
	turns     *turns           // of handshakes
	addresses addresses
	secure    *tls.ConnectionState // of all requests that came over TLS: that they did is all that it tells

	mu        sync.Mutex // guards the following
	listeners []net.Listener
	ends      bool
	sweeps    bool
	closed    chan struct{} // no connection is left
}

// NewServer makes a Server. It calls the handler with a *Response or a *Stream; a request and its header
// are the handler's until it returns, or for good after Keep.
func NewServer(h http.Handler, o Options) *Server {
	s := &Server{handler: h, o: o, began: time.Now(), closed: make(chan struct{}), long: connlimit.NewShare(mostLong)}
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
	s.conns.Add(&x.RosterEntry, x)
	if e.begins() {
		go x.start()
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

const (
	// inSize is room for the head of nearly all requests; a longer one gets more.
	inSize = 8 << 10
	// outSize is room for the head of an answer, and for the whole of a short one.
	outSize = 8 << 10
)

// memories lends memory to requests. Its methods may be called concurrently.
type memories struct {
	in, out, requests sync.Pool

	frames, readings, streams sync.Pool
	lower, canonical          spellings
}

func (m *memories) init() {
	m.in.New = func() any { return new([inSize]byte) }
	m.out.New = func() any { return new([outSize]byte) }
	m.requests.New = func() any {
		return &request{asked: newAsked()}
	}
	m.lower.spell, m.canonical.spell = strings.ToLower, http.CanonicalHeaderKey
	m.lower.known.Store(&map[string]string{})
	m.canonical.known.Store(&map[string]string{})
	m.frames.New = func() any { return new([sendSize]byte) }
	m.readings.New = func() any { return newReading() }
	m.streams.New = func() any { return newStream() }
}

// asked is a request as a handler gets it, over either protocol, and what it borrows for that.
type asked struct {
	http.Request

	url    url.URL
	fields http1.Fields // of the head, as they came
	header http.Header
	values []string // of header, whose first ones are slices of it
	answer answer
}

// answer is the header of an answer, and what follows its body.
type answer struct {
	http1.Fields

	header  http.Header // what handlers of package net/http add; nil: nothing
	trailer http1.Fields
}

// plain is the header for handlers of package net/http.
func (a *answer) plain() http.Header {
	if a.header == nil {
		a.header = make(http.Header)
	}
	return a.header
}

// merge takes in what handlers of package net/http have set.
func (a *answer) merge() {
	if len(a.header) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		for _, v := range a.header[name] {
			a.Add(name, v)
		}
	}
}

// length is that of the body, as told; negative: unknown.
func (a *answer) length() int64 {
	if n, err := strconv.ParseUint(a.Get("Content-Length"), 10, 62); err == nil {
		return int64(n)
	}
	return -1
}

// largeHeader is how many names a header has whose map is not used again.
const largeHeader = 64

func newAsked() asked { return asked{header: make(http.Header)} }

// clear forgets a request, so that it keeps nothing alive.
func (r *asked) clear() {
	if len(r.header) > largeHeader { // a map does not become smaller
		r.header, r.values = make(http.Header), nil
	}
	clear(r.header)
	clear(r.values)
	*r = asked{fields: r.fields.Emptied(), header: r.header, values: r.values[:0], answer: answer{Fields: r.answer.Emptied()}}
}

// request is what a request of HTTP/1 borrows from its head to its end.
type request struct {
	asked

	head     http1.RequestHead
	body     body
	response Response
}

// clear forgets a request, so that it keeps nothing alive.
func (r *request) clear() {
	r.asked.clear()
	r.head = http1.RequestHead{}
	r.body = body{}
	r.response = Response{}
}

// dates writes the Date of answers that have none (RFC 9110, 6.6.1). Its methods may be
// called concurrently.
type dates struct{ now atomic.Pointer[date] }

// date is the text of a second.
type date struct {
	second int64
	text   string
}

func (d *dates) text() string {
	t := time.Now()
	x := d.now.Load()
	if x == nil || x.second != t.Unix() {
		x = &date{t.Unix(), t.UTC().Format(http.TimeFormat)}
		d.now.Store(x)
	}
	return x.text
}

func (d *dates) append(b []byte) []byte { return http1.AppendField(b, "Date", d.text()) }
