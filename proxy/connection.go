package proxy

import (
	"context"
	"net"
	"net/http"
	"time"

	"tempomat/proxy/backend"
	"tempomat/proxy/front"
	"tempomat/proxy/h2bound"
	"tempomat/proxy/http1"
)

// connection is what is remembered of a client's connection. With HTTP/1 its
// requests come one after the other, so that what one of them needed serves the
// next; with HTTP/2 they have nothing in common here.
type connection struct {
	deadline time.Time // for writing, as it was set last
	serving  *exchange
	closing  *closing      // of the server; nil: never
	came     *front.Turned // what it is, of HTTP/2; nil: it is HTTP/1

	of      *connection   // what a stream of HTTP/2 is of
	bounded *h2bound.Conn // of HTTP/2; nil: it is HTTP/1

	call backend.Call // to the backend; the client's leaving does not end it
}

type (
	connectionKey struct{}
	exchangeKey   struct{}
)

// client is the side of an exchange over HTTP/1 that the server has.
type client interface {
	// Look looks whether the client is still there; if not, the request's context ends.
	Look()
	// Keep says that the request is used after its end.
	Keep()
	// Names are those of the request's header, as they were written.
	Names() []http1.Name
}

// connContext prepares a connection that was accepted.
func connContext(ctx context.Context, c net.Conn, closing *closing) context.Context {
	boundUnsent(c)
	return keep(ctx, closing)
}

// keep has requests find what is remembered of their connection.
func keep(ctx context.Context, closing *closing) context.Context {
	return context.WithValue(ctx, connectionKey{}, &connection{closing: closing})
}

// remembered is what keep has requests find; nil: it was not called.
func remembered(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// isCrowded tells whether it is a stream of HTTP/2 beside so many others that it is counted.
func (c *connection) isCrowded() bool {
	return c.of != nil && c.of.bounded != nil && c.of.bounded.Streams() > fewStreams
}

// serve returns the exchange of a request, to be found by exchangeOf.
func (h *Handler) serve(r *http.Request) *exchange {
	c, ok := r.Context().Value(connectionKey{}).(*connection)
	if !ok || r.ProtoMajor != 1 {
		x := &exchange{conn: &connection{}}
		if ok {
			x.conn.closing, x.conn.of = c.closing, c
		}
		x.request = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		return x
	}
	x := h.exchanges.Get().(*exchange)
	x.conn, x.request = c, r
	c.serving = x
	return x
}

// exchangeOf returns the exchange that a request belongs to.
func exchangeOf(r *http.Request) *exchange {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && c.serving != nil {
		return c.serving
	}
	return r.Context().Value(exchangeKey{}).(*exchange)
}

// done lets another request use the exchange. Not that of one with a body, which may be
// read for a moment after the answer is complete, not that of an upgrade, and not one
// that lingers.
func (h *Handler) done(x *exchange) {
	if x.conn.serving != x {
		return
	}
	x.conn.serving = nil
	switch {
	case x.lingers:
		if x.client != nil {
			x.client.Keep()
		}
	case x.body.ReadCloser == nil && x.writer.status != http.StatusSwitchingProtocols:
		fields, ticket := x.asked.fields.Emptied(), x.Spare()
		*x = exchange{}
		x.asked.fields = fields
		x.Reuse(ticket)
		h.exchanges.Put(x)
	}
}
