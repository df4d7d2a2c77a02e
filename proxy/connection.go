package proxy

import (
	"context"
	"net"
	"net/http"
	"time"
)

// connection is what is remembered of a client's connection. With HTTP/1 its
// requests come one after the other, so that what one of them needed serves the
// next; with HTTP/2 they have nothing in common here.
type connection struct {
	deadline time.Time // for writing, as it was set last
	serving  *exchange
	spare    *exchange // to be used again; nil: none
}

type (
	connectionKey struct{}
	exchangeKey   struct{}
)

// meet prepares a connection that was accepted.
func meet(ctx context.Context, c net.Conn) context.Context {
	boundUnsent(c)
	return context.WithValue(ctx, connectionKey{}, &connection{})
}

// serve returns the exchange of a request, to be found by exchangeOf.
func serve(r *http.Request) *exchange {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok || r.ProtoMajor != 1 {
		x := &exchange{conn: &connection{}}
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

// exchangeOf returns the exchange that a request to the backend belongs to.
func exchangeOf(r *http.Request) *exchange {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.serving != nil {
		return c.serving
	}
	return r.Context().Value(exchangeKey{}).(*exchange)
}

// done lets the connection's next request use the exchange. Not that of one
// with a body, which the transport may go on reading for a moment after the
// answer is complete, and not that of an upgrade or a ghost.
func (c *connection) done(x *exchange) {
	if c.serving != x {
		return
	}
	c.serving = nil
	if x.body.ReadCloser == nil && !x.ghost && x.writer.status != http.StatusSwitchingProtocols {
		c.spare = x
	}
}
