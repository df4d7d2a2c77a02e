package proxy

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// connection is what is remembered of a client's connection. With HTTP/1 its
// requests come one after the other, so that what one of them needed serves the
// next; with HTTP/2 they have nothing in common here.
type connection struct {
	deadline time.Time // for writing, as it was set last
	serving  *exchange
	spare    *exchange // to be used again; nil: none
	closing  *closing  // of the server; nil: never
	client   net.Conn  // nil: HTTP/2, or unknown

	backend context.Context    // of requests to the backend; the client's leaving does not end it
	cancel  context.CancelFunc // closes the connection to the backend that is in use

	mu     sync.Mutex // guards the following
	hinted *writer    // where 1xx responses of the backend go; nil: nowhere
	back   *backConn  // in use, or used last; nil: none, or its end cannot be seen
}

type (
	connectionKey struct{}
	exchangeKey   struct{}
)

// meet prepares a connection that was accepted.
func meet(ctx context.Context, c net.Conn, closing *closing) context.Context {
	boundUnsent(c)
	return context.WithValue(ctx, connectionKey{}, &connection{closing: closing, client: c})
}

// serve returns the exchange of a request, to be found by exchangeOf.
func serve(r *http.Request) *exchange {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok || r.ProtoMajor != 1 {
		x := &exchange{conn: &connection{}}
		if ok {
			x.conn.closing = c.closing
		}
		x.request = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		return x
	}
	x := c.spare
	if x == nil {
		x = new(exchange)
	}
	*x = exchange{conn: c, request: r}
	c.serving, c.spare = x, nil
	return x
}

// exchangeOf returns the exchange that a request belongs to.
func exchangeOf(r *http.Request) *exchange {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.serving != nil {
		return c.serving
	}
	return r.Context().Value(exchangeKey{}).(*exchange)
}

// prepare makes the context of a request to the backend, unless that of the one
// before it serves.
func (c *connection) prepare() {
	if c.backend != nil && c.backend.Err() == nil {
		return
	}
	trace := &httptrace.ClientTrace{Got1xxResponse: c.hint, GotConn: c.got}
	c.backend, c.cancel = context.WithCancel(httptrace.WithClientTrace(context.Background(), trace))
}

// got remembers the connection to the backend.
func (c *connection) got(info httptrace.GotConnInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back, _ = info.Conn.(*backConn)
}

// backConn returns the connection to the backend.
func (c *connection) backConn() *backConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// hintTo says where 1xx responses of the backend go. Once the header of the
// final one is there nothing else may touch the client's.
func (c *connection) hintTo(w *writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hinted = w
}

// hint passes a 1xx response on.
func (c *connection) hint(status int, header textproto.MIMEHeader) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hinted == nil {
		return nil
	}
	h := c.hinted.Header()
	maps.Copy(h, http.Header(header))
	c.hinted.WriteHeader(status)
	clear(h)
	return nil
}

// done lets the connection's next request use the exchange. Not that of one
// with a body, which the transport may go on reading for a moment after the
// answer is complete, not that of an upgrade, and not one that lingers.
func (c *connection) done(x *exchange) {
	if c.serving != x {
		return
	}
	c.serving = nil
	if x.body.ReadCloser == nil && !x.lingers && x.writer.status != http.StatusSwitchingProtocols {
		c.spare = x
	}
}
