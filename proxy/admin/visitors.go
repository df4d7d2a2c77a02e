package admin

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// mostConnections is how many may be open over TCP. A viewer has two: for the events, and
// for the rest.
const mostConnections = 128

// visitors is a listener that has so many connections open at most. Anybody may connect: one
// that is too many takes the place of the oldest on which nobody has shown the token. If
// they all have, it is closed itself.
type visitors struct {
	net.Listener

	mu   sync.Mutex // guards the following
	open []*visitor // the oldest first
}

// visitor is a connection over TCP.
type visitor struct {
	net.Conn

	to      *visitors
	trusted atomic.Bool // the last token on it was the right one
}

// Accept implements net.Listener.
func (v *visitors) Accept() (net.Conn, error) {
	for {
		c, err := v.Listener.Accept()
		if err != nil {
			return nil, err
		}
		one := &visitor{Conn: c, to: v}
		leaves := v.admit(one)
		if leaves != nil {
			_ = leaves.Close() // nobody is left to be told
		}
		if leaves != one {
			return one, nil
		}
	}
}

// admit takes a connection in, and returns which one has to go: another, itself, or none.
func (v *visitors) admit(one *visitor) (leaves *visitor) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.open) == mostConnections {
		i := slices.IndexFunc(v.open, func(other *visitor) bool { return !other.trusted.Load() })
		if i < 0 {
			return one
		}
		leaves = v.open[i]
		v.open = slices.Delete(v.open, i, i+1)
	}
	v.open = append(v.open, one)
	return leaves
}

// Close implements net.Conn.
func (c *visitor) Close() error {
	c.to.mu.Lock()
	if i := slices.Index(c.to.open, c); i >= 0 {
		c.to.open = slices.Delete(c.to.open, i, i+1)
	}
	c.to.mu.Unlock()
	return c.Conn.Close()
}

type visitorKey struct{}

// isTrusted tells whether the last token on a request's connection was the right one.
func isTrusted(ctx context.Context) bool {
	c, ok := ctx.Value(visitorKey{}).(*visitor)
	return ok && c.trusted.Load()
}

// trust notes whether the token that came on a request's connection was the right one.
func trust(ctx context.Context, right bool) {
	if c, ok := ctx.Value(visitorKey{}).(*visitor); ok {
		c.trusted.Store(right)
	}
}
