package admin

import (
	"context"
	"net"
)

type peerKey struct{}

// withPeer notes who is at the other end of a connection: the user of a unix socket, if
// that can be known, else the address. Listeners wrap connections; what wraps one tells it by
// NetConn.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	for {
		inner, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = inner.NetConn()
	}
	by := ""
	if u, ok := c.(*net.UnixConn); ok {
		by = peerOf(u)
	} else if a := c.RemoteAddr(); a.Network() == "tcp" {
		by = "token, from " + a.String()
	}
	return context.WithValue(ctx, peerKey{}, by)
}

// askedBy is who asks, in words, for the log.
func askedBy(ctx context.Context) string {
	if by, ok := ctx.Value(peerKey{}).(string); ok && by != "" {
		return by
	}
	return "unknown"
}
