package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
	"tempomat/proxy/host"
	"tempomat/proxy/http1"
)

// maxHeader bounds a request's header, in bytes.
const maxHeader = 64 << 10

// ServerOptions limit a client until it has sent the header of a request; after that, the Policy limits it.
type ServerOptions struct {
	Header time.Duration // longest time from the first byte of a request to the end of its header
	Idle   time.Duration // longest time between two requests of a connection, or between two bytes that an HTTP/2 client takes
	// Linger is how long Drain still answers requests on open connections: a client that has just connected,
	// or has just sent another request, couldn't know about the drain.
	Linger time.Duration
	// Table bounds how many connections are open. Peer returns the address of a connection, and whether it
	// belongs to a trusted proxy.
	Table *connlimit.Table
	Peer  func(remote string) (peer netip.Addr, trusted bool)
	// Challenges answers a certificate authority's request without TLS, or returns false if the request isn't
	// such a challenge; nil: there are no challenges. It may be called concurrently.
	Challenges func(http.ResponseWriter, *http.Request) bool
	// Stepped is called for each TLS handshake and each PROXY protocol header (see front.Options).
	Stepped func(step front.Step, result front.Result, remote string, err error)
	// Malformed is called for each HTTP/1 header that is invalid or incomplete, which the Handler doesn't see.
	// It may be called concurrently.
	Malformed func()
	Log       *zap.Logger
}

// Server accepts connections: HTTP/1.1 and HTTP/2, over TLS or without (h2c).
type Server struct {
	handler    http.Handler
	challenges func(http.ResponseWriter, *http.Request) bool
	front      *front.Server
	closing    *closing
	linger     atomic.Int64 // nanoseconds; see ServerOptions
}

// NewServer makes a Server for a handler.
func NewServer(h http.Handler, o ServerOptions) *Server {
	end := &closing{}
	s := &Server{handler: h, challenges: o.Challenges, closing: end}
	s.linger.Store(int64(o.Linger))
	s.front = front.NewServer(h, front.Options{
		Header: o.Header, Idle: o.Idle, MaxHead: maxHeader, Refused: o.Malformed, Log: Capped(o.Log),
		Stepped: o.Stepped, Table: o.Table, Peer: o.Peer,
		Context: func(ctx context.Context, c net.Conn) context.Context { return connContext(ctx, c, end) },
	})
	return s
}

// Serve serves all entrances. It returns nil after Drain, or an error if one of them fails.
func (s *Server) Serve(entrances []Entrance) error {
	failed := make(chan error, len(entrances))
	for _, e := range entrances {
		go func() { failed <- s.front.Serve(e.Listener, s.atFront(e)) }()
	}
	var err error
	for range cap(failed) {
		if e := <-failed; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e, s.front.Close())
		}
	}
	return err
}

// Drain accepts no more connections, and waits until running and waiting requests are finished, or until the
// context ends. Then it closes all remaining connections, including those to the backend. It doesn't wait for
// abandoned requests and upgraded connections.
func (s *Server) Drain(ctx context.Context) error {
	s.closing.drains.Store(true)
	err := s.front.StopListening()
	select {
	case <-time.After(time.Duration(s.linger.Load())):
	case <-ctx.Done():
	}
	s.closing.upgrades.end()
	if late := s.front.Shutdown(ctx); late != nil {
		err = errors.Join(err, late, s.front.Close())
	}
	return err
}

// Listen opens an address: "host:port", ":port" or "unix:/path".
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return host.ListenUnix(ctx, path)
	}
	var c net.ListenConfig
	return c.Listen(ctx, "tcp", address)
}

// Entrance is a listener and the protocols that its connections use.
type Entrance struct {
	net.Listener
	TLS      *tls.Config // configuration of TLS; nil: no TLS
	Proxied  bool        // whether connections begin with a PROXY header, so only trusted proxies may connect
	Redirect bool        // whether requests are redirected to the same URL over HTTPS
}

// atFront converts the Entrance to one of package front.
func (s *Server) atFront(e Entrance) front.Entrance {
	f := front.Entrance{TLS: e.TLS, Proxied: e.Proxied}
	switch {
	case e.Redirect:
		f.Handler = s.challenged(redirector{next: s.handler})
	case e.TLS == nil && s.challenges != nil:
		f.Handler = s.challenged(s.handler)
	}
	return f
}

// challenged answers the challenges of a certificate authority, and leaves other requests to the handler.
func (s *Server) challenged(h http.Handler) http.Handler {
	if s.challenges == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isChallenge(r) {
			h.ServeHTTP(w, r)
		} else if hurryClient(w, r); !s.challenges(w, r) {
			h.ServeHTTP(w, r)
		}
	})
}

// longestToken bounds a challenge's token, in bytes. Today's tokens have 43.
const longestToken = 128

// isChallenge reports whether a request is one that a certificate authority sends (RFC 8555, 8.3). It checks
// the token's characters, so that a client can't use the path to reach another page without TLS.
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

// redirector redirects requests to the same URL over HTTPS. It passes on the requests of a certificate
// authority, because a program at the backend may answer them, such as certbot with --webroot. It also passes
// on requests that came over HTTPS according to a PROXY protocol header; otherwise it would redirect them
// again and again.
type redirector struct{ next http.Handler }

func (d redirector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS != nil || isChallenge(r) {
		d.next.ServeHTTP(w, r)
		return
	}
	hurryClient(w, r)
	host := http1.HostName(r.Host)
	target := r.URL.RequestURI()
	if host == "" || !strings.HasPrefix(target, "/") || r.Method == http.MethodConnect {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "this address only redirects to HTTPS, and this request has no host or path to redirect to", http.StatusBadRequest)
		return
	}
	status := http.StatusPermanentRedirect // keeps the method and the body
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		status = http.StatusMovedPermanently
	}
	w.Header().Set("Location", "https://"+host+target)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

// hurryClient limits how long a client may take to read a short answer that no exchange sends. Otherwise a client
// that reads nothing would keep its connection's place for ever.
func hurryClient(w http.ResponseWriter, r *http.Request) {
	until := time.Now().Add(5 * time.Second)
	if c := remembered(r.Context()); c != nil && r.ProtoMajor == 1 {
		c.deadline = until // so that an exchange on the same connection sets its own
	}
	_ = w.(served).SetWriteDeadline(until) //nolint:forcetypeassert // both writers of package front implement it
}

// Retire stops accepting connections, because another process now accepts them, and sets how long the
// following Drain lingers. It doesn't make Serve fail.
func (s *Server) Retire(linger time.Duration) {
	s.closing.drains.Store(true)
	s.linger.Store(int64(linger))
	_ = s.front.StopListening() // a listener that can't be closed is closed with the process
}

// connContext prepares an accepted connection: it adds the state that requests share to the context.
func connContext(ctx context.Context, c net.Conn, closing *closing) context.Context {
	boundUnsent(c)
	var local netip.Addr
	if at, ok := c.LocalAddr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		local = at.AddrPort().Addr().Unmap()
	}
	return context.WithValue(ctx, connectionKey{}, &connection{local: local, closing: closing})
}

// mostUnsent is how many bytes of a connection may wait in the kernel to be sent. Without this bound,
// megabytes may wait. While a client reads these slowly but steadily, no write succeeds for minutes, and the
// client looks like one that reads nothing.
const mostUnsent = 64 << 10

// boundUnsent applies mostUnsent to a connection. Setting the option on the listener isn't enough, because
// accepted connections don't inherit it.
func boundUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil { // it fails only if the connection is already closed
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, mostUnsent) // if it fails, the write timeout is only less exact
		})
	}
}
