package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
	"tempomat/proxy/h2bound"
	"tempomat/proxy/unixsocket"
)

const (
	// maxHeader bounds a request's header, in bytes.
	maxHeader = 64 << 10
	// maxFrame bounds a frame of HTTP/2, in bytes: as short as it may be (RFC 9113, 6.5.2).
	maxFrame = 16 << 10
)

// ServerOptions bound what a client can hold open before it has sent a request.
// What it can hold open after, the Policy bounds.
type ServerOptions struct {
	Header time.Duration // from the first byte of a request to the end of its header
	Idle   time.Duration // between two requests of a connection, or two bytes that an HTTP/2 client takes
	// Linger is for how long Drain answers what comes on connections that are open: who
	// has just connected, or asks again just now, did not know.
	Linger time.Duration
	// Table bounds how many connections are open; nil: nothing does. Peer tells it who has
	// connected, and whether that is a trusted proxy.
	Table *connlimit.Table
	Peer  func(remote string) (peer netip.Addr, trusted bool)
	// Challenges answers requests of a certificate authority that come in the clear, or returns
	// false; nil: none is for this server. It is called concurrently.
	Challenges func(http.ResponseWriter, *http.Request) bool
	// Stepped is told of what connections do before their first request (front.Options); nil:
	// nobody is.
	Stepped func(step front.Step, result front.Result, remote string, err error)
	// Malformed is told of each head of HTTP/1 that is no request, or does not come to its
	// end, of which the Handler hears nothing; nil: nobody is. It is called concurrently.
	Malformed func()
	Log       *zap.Logger
}

// enter gives a connection its place; nil: it has none, and is closed.
func (o *ServerOptions) enter(c io.Closer, remote string) front.Place {
	peer, trusted := o.Peer(remote)
	if p := o.Table.Enter(time.Now(), peer, trusted, c); p != nil {
		return p
	}
	return nil
}

// trusts tells whether a peer is a trusted proxy.
func (o *ServerOptions) trusts(remote string) bool {
	_, trusted := o.Peer(remote)
	return trusted
}

// Server accepts connections: HTTP/1.1 and HTTP/2, over TLS or without (h2c).
type Server struct {
	handler    http.Handler
	challenges func(http.ResponseWriter, *http.Request) bool
	front      *front.Server
	http2      *http.Server
	turned     *turned
	closing    *closing
	linger     time.Duration

	mu        sync.Mutex // guards the following
	listeners []net.Listener
}

// closing is how far a server has come with its end.
type closing struct {
	drains atomic.Bool // it waits for those who wait for an answer, and for nobody else
	cuts   atomic.Bool // it waits for nobody

	upgrades upgrades
}

// ends tells whether the server comes to its end.
func (c *closing) ends() bool { return c != nil && c.drains.Load() }

// givesUp tells whether the server does not wait for what the backend does for a
// client that has left (orphan), or has not.
func (c *closing) givesUp(orphan bool) bool {
	return c != nil && (c.cuts.Load() || orphan && c.drains.Load())
}

// NewServer makes a Server for a handler.
func NewServer(h http.Handler, o ServerOptions) *Server {
	end := &closing{}
	s := &Server{handler: h, challenges: o.Challenges, closing: end, linger: o.Linger, turned: newTurned(o), http2: newHTTP2(h, o, end)}
	options := front.Options{
		Header: o.Header, Idle: o.Idle, MaxHead: maxHeader, Refused: o.Malformed, Log: Capped(o.Log), HTTP2: s.turned.add,
		Stepped: o.Stepped,
		Context: func(ctx context.Context, c net.Conn) context.Context { return connContext(ctx, c, end) },
	}
	if o.Table != nil {
		options.Enter = o.enter
	}
	if o.Peer != nil {
		options.Trusts = o.trusts
	}
	s.front = front.NewServer(h, options)
	return s
}

// newHTTP2 makes the server of connections that turn out to be HTTP/2.
func newHTTP2(h http.Handler, o ServerOptions, end *closing) *http.Server {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: entered(h),
		// "OPTIONS *" is for the backend to answer.
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            o.Header,
		IdleTimeout:                  o.Idle,
		MaxHeaderBytes:               maxHeader,
		Protocols:                    &protocols,
		// A response's own deadline does not help where the client takes nothing of
		// the whole connection. And net/http keeps a buffer as long as the longest
		// frame, of up to 1 MB, as long as the connection is open.
		HTTP2:    &http.HTTP2Config{WriteByteTimeout: o.Idle, MaxReadFrameSize: maxFrame},
		ErrorLog: zap.NewStdLog(o.Log),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			ctx = keep(ctx, end)
			conn := remembered(ctx)
			conn.bounded, _ = c.(*h2bound.Conn)
			conn.came, _ = h2bound.Unwrap(c).(*front.Turned)
			return ctx
		},
		ConnState: place,
	}
}

// entered has a handler serve a stream of HTTP/2 as it would a request of HTTP/1 that came by
// the same listener.
func entered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by := h
		if c := remembered(r.Context()); c != nil && c.came != nil {
			r.TLS = c.came.TLS
			if c.came.Entrance.Handler != nil {
				by = c.came.Entrance.Handler
			}
		}
		by.ServeHTTP(w, r)
	})
}

// Serve serves all entrances until Drain, when it returns nil, or until one of
// them fails.
func (s *Server) Serve(entrances []Entrance) error {
	s.mu.Lock()
	for _, e := range entrances {
		s.listeners = append(s.listeners, e.Listener)
	}
	s.mu.Unlock()
	failed := make(chan error, len(entrances)+1)
	go func() { failed <- s.http2.Serve(s.turned) }()
	for _, e := range entrances {
		go func() { failed <- s.front.Serve(e.Listener, s.begins(e)) }()
	}
	var err error
	for range cap(failed) {
		if e := <-failed; !errors.Is(e, http.ErrServerClosed) && !(errors.Is(e, net.ErrClosed) && s.closing.drains.Load()) {
			err = errors.Join(err, e, s.front.Close(), s.http2.Close())
		}
	}
	return err
}

// Drain takes no further connection and waits for the requests under way, the
// held ones included, until the context ends. Then it cuts what is left, the
// connections to the backend included. What the backend does for clients that
// have left is cut at once, and so are connections that were upgraded.
func (s *Server) Drain(ctx context.Context) error {
	s.closing.drains.Store(true)
	s.stopListening(ctx)
	other := make(chan error, 1)
	go func() { other <- s.http2.Shutdown(ctx) }()
	s.closing.upgrades.end()
	if err := errors.Join(s.front.Shutdown(ctx), <-other); err != nil {
		s.closing.cuts.Store(true)
		return errors.Join(err, s.front.Close(), s.http2.Close())
	}
	return nil
}

// stopListening closes the listeners and lingers.
func (s *Server) stopListening(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.linger <= 0 || len(s.listeners) == 0 {
		return
	}
	for _, l := range s.listeners {
		_ = l.Close() // or Shutdown does
	}
	select {
	case <-time.After(s.linger):
	case <-ctx.Done():
	}
}

// Listen opens an address: "host:port", ":port" or "unix:/path".
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return unixsocket.Listen(ctx, path)
	}
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", address)
}
