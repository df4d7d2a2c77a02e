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

// Backend is where requests go.
type Backend struct {
	URL         *url.URL      // scheme and host, or unix:/path
	DialTimeout time.Duration // longest wait until another machine takes a connection
	Timeout     time.Duration // longest wait for the response's header, and for an answer without a client
}

// NewUpstream makes an Upstream; it connects to nothing yet.
func NewUpstream(b Backend, log *zap.Logger) *Upstream {
	host := b.URL.Host
	if b.URL.Scheme == "unix" {
		host = "localhost"
	}
	return &Upstream{timeout: b.Timeout, pool: backend.NewPool(dialer(b), host, b.Timeout), log: Capped(log)}
}

// forward has the backend answer.
func (u *Upstream) forward(x *exchange) {
	if x.request.Method == http.MethodConnect {
		x.fail(telemetry.Refused, errorpage.WrongMethod, "This is no forward proxy.")
		return
	}
	out := u.rewrite(x)
	x.backend.work.bound(u.timeout)
	res, err := u.pool.Do(&x.client.conn.call, out)
	if err != nil {
		u.explain(x, err)
		return
	}
	defer res.Close()
	now := time.Now()
	x.life.Answered(now, res.Status, &res.Fields) // before the client has it
	if res.Status == http.StatusSwitchingProtocols {
		u.upgrade(x, out, res)
		return
	}
	u.pass(now, x, res)
}

// Hint implements backend.Hints: it passes on what comes before the answer.
func (x *exchange) Hint(status int, fields http1.Fields) {
	h := x.client.writer.Fields()
	*h = endToEnd(*h, fields)
	x.client.writer.WriteHeader(status)
	*h = h.Emptied()
}

// Close closes the idle connections to the backend.
func (u *Upstream) Close() { u.pool.Close() }

// Crowd reports whether connections wait for the backend to accept them.
func (h *Handler) Crowd(on bool) { h.policy.Load().Upstream.pool.Crowd(on) }

// dialer opens connections to a backend, and is done with TLS's handshake then. A machine that accepts
// no connection is down, which shows soon. On this machine the kernel accepts or refuses it; if it does
// neither, its queue is full. That, and the handshake, wait for a worker, like the request that
// follows.
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

// retryFull is how soon a unix socket is tried again whose queue is full: the kernel does not wait there, as it does with TCP.
const retryFull = 20 * time.Millisecond

// errFull is no fault of dialling: see explain.
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

// backendTLS is how a backend is asked over TLS. On a loopback address its certificate is not
// checked: authorities issue none for 127.0.0.1, and a program that listens there is already on
// this machine. Sessions are resumed, which spares the backend most of a handshake.
func backendTLS(host string) *tls.Config {
	ip, err := netip.ParseAddr(host)
	return &tls.Config{
		ServerName: host, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(0),
		InsecureSkipVerify: err == nil && ip.IsLoopback(), //nolint:gosec // see above
	}
}

// hostPort is a URL's host with its port.
func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return net.JoinHostPort(u.Hostname(), "80")
}

// Lines of a kind in a second, and beyond these one of so many: a client that fails on
// purpose, or a crowd before a backend that is down, is not to fill the disk.
const (
	mostLines = 20
	oneLineOf = 1000
)

// Capped is a log that limits lines about failures to what a person can read.
func Capped(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, mostLines, oneLineOf)
	}))
}

// explain answers for a backend that did not, and logs that once. A client that disconnected
// needs no answer.
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
	case x.gone(), errors.Is(err, context.Canceled): // by its client, or as all are to end
		x.abandon()
	case late:
		x.fail(telemetry.BackendSlow, errorpage.BackendSlow, "The site takes too long to answer. Please try again later.")
	default:
		x.fail(telemetry.BackendDown, errorpage.BackendDown, "The site does not answer. Please try again later.")
	}
	u.log.Error(x.log.outcome.String(), zap.Error(err), zap.String("request", x.id),
		zap.String("method", x.request.Method), zap.String("path", telemetry.Clip(x.request.URL.Path)))
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
