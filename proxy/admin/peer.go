package admin

import (
	"context"
	"net"
)

type peerKey struct{}

// withPeer notes who is at the other end of a connection, if that can be known.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	switch c := c.(type) {
	case *net.UnixConn:
		return context.WithValue(ctx, peerKey{}, peerOf(c))
	case *visitor:
		return context.WithValue(ctx, visitorKey{}, c)
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
