package admin

import (
	"context"
	"net"
)

type peerKey struct{}

// withPeer notes who is at the other end of a connection, if that can be known.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if u, ok := c.(*net.UnixConn); ok {
		return context.WithValue(ctx, peerKey{}, peerOf(u))
	}
	return ctx
}

// askedBy is who asks, in words, for the log.
func askedBy(ctx context.Context) string {
	if by, ok := ctx.Value(peerKey{}).(string); ok && by != "" {
		return by
	}
	return "unknown"
}
