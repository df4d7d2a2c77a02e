package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/proxy/backend"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// Backend configures the server that requests are forwarded to.
type Backend struct {
	URL         *url.URL      // scheme and host, or unix:/path
	DialTimeout time.Duration // longest wait until a backend on another machine accepts a connection
	Timeout     time.Duration // longest wait for the response's header, and for the rest of an answer whose client has disconnected
}

// NewUpstream makes an Upstream. It doesn't connect yet.
func NewUpstream(b Backend, log *zap.Logger) *Upstream {
	host := b.URL.Host
	if b.URL.Scheme == "unix" {
		host = "localhost"
	}
	return &Upstream{timeout: b.Timeout, pool: backend.NewPool(dialer(b), host, b.Timeout), log: Capped(log)}
}

// forward sends the request to the backend, and the answer to the client.
func (u *Upstream) forward(x *exchange) {
	if x.request.Method == http.MethodConnect {
		x.fail(telemetry.Refused, errorpage.WrongMethod)
		return
	}
	out := u.rewrite(x)
	res, err := u.pool.Do(&x.client.conn.call, out)
	if err != nil {
		u.explain(x, err)
		return
	}
	defer res.Close()
	now := time.Now()
	x.life.Answered(now, res.Status, &res.Fields) // removes private fields
	if res.Status == http.StatusSwitchingProtocols {
		u.upgrade(x, out, res)
		return
	}
	u.pass(now, x, res)
}

// Hint implements backend.Hints. It passes on interim responses, such as 103.
func (x *exchange) Hint(status int, fields http1.Fields) {
	h := x.client.writer.Fields()
	*h = endToEnd(*h, fields)
	x.client.writer.WriteHeader(status)
	*h = h.Emptied()
}

// Close closes the idle connections to the backend.
func (u *Upstream) Close() { u.pool.Close() }

// Crowd tells the pool whether connections wait for the backend to accept them.
func (h *Handler) Crowd(on bool) { h.policy.Load().Upstream.pool.Crowd(on) }

// dialer opens connections to a backend, including the TLS handshake. A backend on another machine counts as
// down if it doesn't accept the connection within DialTimeout. On this machine the kernel accepts or refuses
// a connection at once, unless the queue of the listening socket is full. Then the connection, like the TLS
// handshake, waits for a worker, so it may take as long as the response may.
func dialer(b Backend) backend.Dial {
	open := connect(b)
	if b.URL.Scheme != "https" {
		return open
	}
	config := backendTLS(b.URL.Hostname())
	return func(ctx context.Context) (net.Conn, error) {
		c, err := open(ctx)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, b.Timeout)
		defer cancel()
		secure := tls.Client(c, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("TLS handshake with the backend: %w", err)
		}
		return secure, nil
	}
}

// retryFull is the pause before another attempt to connect to a unix socket whose queue is full. With TCP the
// kernel itself waits.
const retryFull = 20 * time.Millisecond

// errFull is returned if a unix socket's queue stays full. It wraps a timeout, so explain reports that the
// backend is slow, not that it is down.
var errFull = fmt.Errorf("the backend's queue of connections is full: %w", os.ErrDeadlineExceeded)

// connect opens connections without TLS.
func connect(b Backend) backend.Dial {
	network, address := "tcp", hostPort(b.URL)
	host, err := netip.ParseAddr(b.URL.Hostname())
	local := err == nil && host.IsLoopback() || b.URL.Hostname() == "localhost"
	if b.URL.Scheme == "unix" {
		network, address, local = "unix", b.URL.Path, true
	}
	if !local {
		return func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{Timeout: b.DialTimeout}).DialContext(ctx, network, address)
		}
	}
	return func(ctx context.Context) (net.Conn, error) {
		for until := time.Now().Add(b.Timeout); ; {
			c, err := (&net.Dialer{Deadline: until}).DialContext(ctx, network, address)
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				return c, err
			}
			if !errors.Is(err, syscall.EAGAIN) || time.Until(until) <= retryFull {
				return nil, errFull
			}
			select {
			case <-time.After(retryFull):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// backendTLS returns the configuration for a backend over TLS. On a loopback address the certificate isn't
// checked, because authorities issue none for 127.0.0.1, and an attacker who can listen there already
// controls this machine. Sessions are resumed, which saves the backend most of a handshake.
func backendTLS(host string) *tls.Config {
	ip, err := netip.ParseAddr(host)
	return &tls.Config{
		ServerName: host, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(0),
		InsecureSkipVerify: err == nil && ip.IsLoopback(), //nolint:gosec // see above
	}
}

// hostPort returns a URL's host and port.
func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// Each second, the first mostLines lines with the same message are logged, and then one in oneLineOf. Otherwise
// clients that fail on purpose, or many clients while the backend is down, could fill the disk.
const (
	mostLines = 20
	oneLineOf = 1000
)

// Capped returns a logger that limits how many lines with the same message are written.
func Capped(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, mostLines, oneLineOf)
	}))
}

// explain logs why the backend did not answer, and sends the client an error page, unless the client has
// disconnected.
func (u *Upstream) explain(x *exchange, err error) {
	var timeout net.Error
	late := errors.As(err, &timeout) && timeout.Timeout() && !isDial(err)
	switch {
	case x.client.body.broken.Load():
		x.refuseBody()
		return
	case x.gone() && late:
		x.log.outcome = telemetry.BackendSlow
		abort()
	case x.gone(), errors.Is(err, context.Canceled): // the client disconnected, or the server is shutting down
		x.abandon()
	case late:
		x.fail(telemetry.BackendSlow, errorpage.BackendSlow)
	default:
		x.fail(telemetry.BackendDown, errorpage.BackendDown)
	}
	u.log.Error(x.log.outcome.String(), zap.Error(err), zap.String("request", x.id),
		zap.String("method", x.request.Method), zap.String("path", telemetry.Clip(x.request.URL.Path)))
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
