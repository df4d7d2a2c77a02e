package proxy

import (
	"context"
	"net"
	"net/http"
	"time"

	"tempomat/proxy/backend"
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
	carries  *carrier  // what its streams have in common, if it is HTTP/2

	call backend.Call // to the backend; the client's leaving does not end it
}

type (
	connectionKey struct{}
	exchangeKey   struct{}
)

// meet prepares a connection that was accepted.
func meet(ctx context.Context, c net.Conn, closing *closing) context.Context {
	boundUnsent(c)
	return context.WithValue(ctx, connectionKey{}, &connection{closing: closing, client: c, carries: &carrier{conn: c}})
}

// serve returns the exchange of a request, to be found by exchangeOf.
func serve(r *http.Request) *exchange {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok || r.ProtoMajor != 1 {
		x := &exchange{conn: &connection{}}
		if ok {
			x.conn.closing, x.conn.carries = c.closing, c.carries
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

// done lets the connection's next request use the exchange. Not that of one
// with a body, which may be read for a moment after the answer is complete, not
// that of an upgrade, and not one that lingers.
func (c *connection) done(x *exchange) {
	if c.serving != x {
		return
	}
	c.serving = nil
	if x.body.ReadCloser == nil && !x.lingers && x.writer.status != http.StatusSwitchingProtocols {
		c.spare = x
	}
}
