package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
	"tempomat/proxy/host"
	"tempomat/proxy/http1"
)

// maxHeader bounds a request's header, in bytes.
const maxHeader = 64 << 10

// ServerOptions bound what a client can hold open before it has sent a request. The Policy
// bounds what it can hold open after that.
type ServerOptions struct {
	Header time.Duration // from the first byte of a request to the end of its header
	Idle   time.Duration // between two requests of a connection, or two bytes that an HTTP/2 client takes
	// Linger is how long Drain still answers requests on open connections: a client that just
	// connected, or just sent another request, could not know of the drain.
	Linger time.Duration
	// Table bounds how many connections are open; nil: nothing does. Peer tells it who has
	// connected, and whether that is a trusted proxy.
	Table *connlimit.Table
	Peer  func(remote string) (peer netip.Addr, trusted bool)
	// Challenges answers requests of a certificate authority that come in the clear, or returns
	// false; nil: none is for this server. It is called concurrently.
	Challenges func(http.ResponseWriter, *http.Request) bool
	// Stepped is called with what connections do before their first request (front.Options); it
	// may be nil.
	Stepped func(step front.Step, result front.Result, remote string, err error)
	// Malformed is called for each head of HTTP/1 that isn't a request, or is incomplete; the
	// Handler doesn't see these. It may be nil, and is called concurrently.
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

// trusts reports whether a peer is a trusted proxy.
func (o *ServerOptions) trusts(remote string) bool {
	_, trusted := o.Peer(remote)
	return trusted
}

// Server accepts connections: HTTP/1.1 and HTTP/2, over TLS or without (h2c).
type Server struct {
	handler    http.Handler
	challenges func(http.ResponseWriter, *http.Request) bool
	front      *front.Server
	closing    *closing
	linger     time.Duration

	mu        sync.Mutex // guards the following
	listeners []net.Listener
}

// NewServer makes a Server for a handler.
func NewServer(h http.Handler, o ServerOptions) *Server {
	end := &closing{}
	s := &Server{handler: h, challenges: o.Challenges, closing: end, linger: o.Linger}
	options := front.Options{
		Header: o.Header, Idle: o.Idle, MaxHead: maxHeader, Refused: o.Malformed, Log: Capped(o.Log),
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

// Serve serves all entrances until Drain, when it returns nil, or until one of
// them fails.
func (s *Server) Serve(entrances []Entrance) error {
	s.mu.Lock()
	for _, e := range entrances {
		s.listeners = append(s.listeners, e.Listener)
	}
	s.mu.Unlock()
	failed := make(chan error, len(entrances))
	for _, e := range entrances {
		go func() { failed <- s.front.Serve(e.Listener, s.begins(e)) }()
	}
	var err error
	for range cap(failed) {
		if e := <-failed; !errors.Is(e, http.ErrServerClosed) && !(errors.Is(e, net.ErrClosed) && s.closing.drains.Load()) {
			err = errors.Join(err, e, s.front.Close())
		}
	}
	return err
}

// Drain takes no further connection and waits for the requests under way, the held ones
// included, until the context ends. Then it cuts what is left, including the connections to the
// backend. Orphans and upgraded connections are cut at once.
func (s *Server) Drain(ctx context.Context) error {
	s.closing.drains.Store(true)
	s.stopListening(ctx)
	s.closing.upgrades.end()
	if err := s.front.Shutdown(ctx); err != nil {
		s.closing.cuts.Store(true)
		return errors.Join(err, s.front.Close())
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
		return host.ListenUnix(ctx, path)
	}
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", address)
}

// Entrance is a listener, and how its connections begin.
type Entrance struct {
	net.Listener
	TLS      *tls.Config // nil: they are in the clear
	Proxied  bool        // by a header of the PROXY protocol, of a trusted proxy
	Redirect bool        // requests are sent to the same URL over HTTPS
}

// begins is what the server's side has to know of it.
func (s *Server) begins(e Entrance) front.Entrance {
	f := front.Entrance{TLS: e.TLS, Proxied: e.Proxied}
	switch {
	case e.Redirect:
		f.Handler = s.challenged(redirector{next: s.handler})
	case e.TLS == nil && s.challenges != nil:
		f.Handler = s.challenged(s.handler)
	}
	return f
}

// challenged has the challenges of a certificate authority answered before a handler.
func (s *Server) challenged(h http.Handler) http.Handler {
	if s.challenges == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isChallenge(r) || !s.challenges(w, r) {
			h.ServeHTTP(w, r)
		}
	})
}

// longestToken is how many letters a challenge's token has at most; those of today have 43.
const longestToken = 128

// isChallenge reports whether a certificate authority asks (RFC 8555, 8.3). Its token has no
// character that could lead the backend to another page, which must not be served in the clear.
func isChallenge(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.URL.Path, "/.well-known/acme-challenge/")
	if !ok || token == "" || len(token) > longestToken {
		return false
	}
	for _, c := range []byte(token) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// redirector sends requests to the same URL over HTTPS, except those of a certificate
// authority: programs at the backend answer these, such as certbot with --webroot. A client
// that came by HTTPS, according to a PROXY protocol header, would be sent in a circle.
type redirector struct{ next http.Handler }

func (d redirector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil || isChallenge(r) {
		d.next.ServeHTTP(w, r)
		return
	}
	host := http1.HostName(r.Host)
	target := r.URL.RequestURI()
	if host == "" || !strings.HasPrefix(target, "/") || r.Method == http.MethodConnect {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "this address is for requests of a host over HTTPS", http.StatusBadRequest)
		return
	}
	status := http.StatusPermanentRedirect // the method and the body are to be the same
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = http.StatusMovedPermanently
	}
	w.Header().Set("Location", "https://"+host+target)
	w.WriteHeader(status)
}

// Retire accepts no further connections, because another process does, and sets how long the
// Drain that follows lingers. Serve does not fail because of it.
func (s *Server) Retire(linger time.Duration) {
	s.closing.drains.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.linger = linger
	for _, l := range s.listeners {
		_ = l.Close() // Drain says so if it cannot
	}
}

// connContext prepares a connection that was accepted: requests find what is remembered of it.
func connContext(ctx context.Context, c net.Conn, closing *closing) context.Context {
	boundUnsent(c)
	return context.WithValue(ctx, connectionKey{}, &connection{closing: closing})
}
