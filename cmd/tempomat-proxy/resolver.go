package main

import (
	"context"
	"net"
	"sync/atomic"
)

// resolver is whom DNS is asked of: a server, or those that the system has.
type resolver struct{ server atomic.Pointer[string] }

// ask has a server be asked from now on; empty: those that the system has. It tells whether
// that is another one than before.
func (r *resolver) ask(server string) (another bool) {
	before := r.server.Swap(&server)
	return before != nil && *before != server
}

// system is the resolver that asks it. It does without C, whose look-ups do not end when
// nobody waits for them any more.
func (r *resolver) system() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if s := r.server.Load(); s != nil && *s != "" {
			address = *s
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}
