package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
)

// Backend is where requests go.
type Backend struct {
	URL         *url.URL      // scheme and host, or unix:/path
	DialTimeout time.Duration // longest wait for a connection
	Timeout     time.Duration // longest wait for the response's header
}

// Upstream forwards requests to a backend.
type Upstream struct {
	proxy     httputil.ReverseProxy
	transport *http.Transport
	backlog   backlog
}

// NewUpstream makes an Upstream; it connects to nothing yet.
func NewUpstream(b Backend, log *zap.Logger) *Upstream {
	u := &Upstream{transport: newTransport(b), backlog: backlog{log: log}}
	scheme, host := b.URL.Scheme, b.URL.Host
	if scheme == "unix" {
		scheme, host = "http", "localhost"
	}
	u.proxy = httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { rewrite(r, scheme, host) },
		Transport:      u.transport,
		BufferPool:     newBuffers(),
		ModifyResponse: u.takeNote,
		ErrorHandler:   func(_ http.ResponseWriter, r *http.Request, err error) { explain(r, err, log) },
		ErrorLog:       zap.NewStdLog(log),
	}
	return u
}

// ServeHTTP implements http.Handler.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		http.Error(w, "This is no forward proxy.", http.StatusMethodNotAllowed)
		return
	}
	u.proxy.ServeHTTP(w, r)
}

// Close lets go of the idle connections to the backend.
func (u *Upstream) Close() { u.transport.CloseIdleConnections() }

func newTransport(b Backend) *http.Transport {
	dialer := &net.Dialer{Timeout: b.DialTimeout}
	dial := dialer.DialContext
	if b.URL.Scheme == "unix" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", b.URL.Path)
		}
	}
	return &http.Transport{
		DialContext:           dial,
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
		ReadBufferSize:      8 << 10,
	}
}

// takeNote looks at the response's header before the client does.
func (u *Upstream) takeNote(res *http.Response) error {
	x := exchangeOf(res.Request)
	now := time.Now()
	x.span.Tell(now, res.Header)
	x.judgeAnswer(now, res)
	if x.light {
		u.backlog.note(now, x.guess, now.Sub(x.forwarded), x.policy.Limits.Gate.Workers)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.writer.status = res.StatusCode // ReverseProxy writes it to the connection
		x.detach(now)
	} else if isStream(res.Header) {
		x.detach(now)
	}
	return nil
}

// judgeAnswer lets the standing see what the site gives its client and says of
// it. What it says is for nobody else.
func (x *exchange) judgeAnswer(now time.Time, res *http.Response) {
	if x.policy.Standing != nil && !x.who.Exempt {
		x.policy.Standing.Answered(now, x.request, &x.who, res.StatusCode, res.Header)
		return
	}
	classify.StripStanding(res.Header)
}

func isStream(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// explain answers for a backend that did not, and logs that once. A client that
// has gone needs no answer.
func explain(r *http.Request, err error, log *zap.Logger) {
	x := exchangeOf(r)
	var timeout net.Error
	switch {
	case x.body.broken.Load():
		x.fail(ClientGone, http.StatusRequestTimeout, "The rest of the request did not come.")
		return
	case r.Context().Err() != nil:
		x.abandon()
	case errors.As(err, &timeout) && timeout.Timeout() && !isDial(err):
		x.fail(BackendSlow, http.StatusGatewayTimeout, "The site takes too long to answer. Please try again later.")
	default:
		x.fail(BackendDown, http.StatusBadGateway, "The site does not answer. Please try again later.")
	}
	log.Error(x.outcome.String(), zap.Error(err), zap.String("request", x.id),
		zap.String("method", r.Method), zap.String("path", clip(r.URL.Path)))
}

func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// buffers is a pool of what responses are copied through.
type buffers struct{ pool sync.Pool }

const bufferSize = 32 << 10

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

func (b *buffers) Get() []byte  { return b.pool.Get().(*[bufferSize]byte)[:] }
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
