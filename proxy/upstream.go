package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"
)

// Backend is where requests go.
type Backend struct {
	URL         *url.URL      // scheme and host, or unix:/path
	DialTimeout time.Duration // longest wait for a connection
	Timeout     time.Duration // longest wait for the response's header, and for an answer that nobody gets
}

// Upstream forwards requests to a backend.
type Upstream struct {
	scheme, host string
	timeout      time.Duration
	transport    *http.Transport
	log          *zap.Logger
}

// NewUpstream makes an Upstream; it connects to nothing yet.
func NewUpstream(b Backend, log *zap.Logger) *Upstream {
	u := &Upstream{
		scheme: b.URL.Scheme, host: b.URL.Host, timeout: b.Timeout,
		transport: newTransport(b), log: log,
	}
	if u.scheme == "unix" {
		u.scheme, u.host = "http", "localhost"
	}
	return u
}

// ServeHTTP implements http.Handler, for requests that come by way of a Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		http.Error(w, "This is no forward proxy.", http.StatusMethodNotAllowed)
		return
	}
	x := exchangeOf(r)
	out, err := u.rewrite(x)
	if err != nil {
		u.explain(x, err)
		return
	}
	x.work.setPatience(u.timeout)
	x.conn.hintTo(&x.writer)
	res, err := u.transport.RoundTrip(out)
	x.conn.hintTo(nil)
	if err != nil {
		u.explain(x, err)
		x.conn.cancel() // a late hint is not for the next request
		return
	}
	defer res.Body.Close()
	x.Answered(time.Now(), res.StatusCode, res.Header) // before the client has it
	if res.StatusCode == http.StatusSwitchingProtocols {
		u.upgrade(x, out, res)
		return
	}
	u.pass(x, res)
}

// Close lets go of the idle connections to the backend.
func (u *Upstream) Close() { u.transport.CloseIdleConnections() }

func newTransport(b Backend) *http.Transport {
	d := &net.Dialer{Timeout: b.DialTimeout}
	dial := d.DialContext
	if b.URL.Scheme == "unix" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", b.URL.Path)
		}
	}
	return &http.Transport{
		DialContext:           dialer(dial).seen,
		TLSHandshakeTimeout:   b.DialTimeout,
		ResponseHeaderTimeout: b.Timeout,
		ExpectContinueTimeout: time.Second,
		// Enough that a crowd does not connect anew for each request, and not for
		// long: an idle connection holds a worker of Apache's, and one that the
		// backend closes first fails a POST. No round number: net/http does not stop
		// the timer when it uses the connection again, and one that fires at the very
		// moment of an answer takes that for lost.
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     987 * time.Millisecond,
		DisableCompression:  true, // pass on what the backend encoded
		WriteBufferSize:     4 << 10,
		ReadBufferSize:      largePiece, // a small answer comes in one piece, its end included
	}
}

// explain answers for a backend that did not, and logs that once. A client that
// has gone needs no answer.
func (u *Upstream) explain(x *exchange, err error) {
	var timeout net.Error
	late := errors.As(err, &timeout) && timeout.Timeout() && !isDial(err)
	switch {
	case x.body.broken.Load():
		x.refuseBody()
		return
	case x.gone() && late:
		x.outcome = BackendSlow
		abort()
	case x.gone(), errors.Is(err, context.Canceled): // by its client, or as all are to end
		x.abandon()
	case late:
		x.fail(BackendSlow, http.StatusGatewayTimeout, "The site takes too long to answer. Please try again later.")
	default:
		x.fail(BackendDown, http.StatusBadGateway, "The site does not answer. Please try again later.")
	}
	u.log.Error(x.outcome.String(), zap.Error(err), zap.String("request", x.id),
		zap.String("method", x.request.Method), zap.String("path", clip(x.request.URL.Path)))
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
