package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/proxy/backend"
)

// pool is of connections to the backend at the other end of a wire.
func (w wire) pool(timeout time.Duration) *backend.Pool {
	return backend.NewPool(func(ctx context.Context) (net.Conn, error) {
		return w.dial(ctx, "tcp", "backend.invalid")
	}, "backend.invalid", timeout)
}

// wire is a network with one address.
type wire struct {
	net.Listener
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func loopback(t *testing.T) wire {
	t.Helper()
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return wire{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
}

// memory is a network that works in a synctest bubble.
func memory() wire {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	return wire{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return l.dial(ctx, netip.MustParseAddrPort("192.0.2.1:1024"))
	}}
}

// from is the same network for a client of another address.
func (w wire) from(address string) wire {
	ap := netip.AddrPortFrom(netip.MustParseAddr(address), 1024)
	return wire{w.Listener, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return w.Listener.(*pipes).dial(ctx, ap)
	}}
}

type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

type pipe struct {
	net.Conn
	remote netip.AddrPort
	left   *atomic.Bool // the other end was closed
}

func (p pipe) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(p.remote) }

// HasLeft tells what the kernel tells of its connections.
func (p pipe) HasLeft() bool { return p.left.Load() }

// nearEnd is the other end.
type nearEnd struct {
	net.Conn
	left *atomic.Bool
}

func (n nearEnd) Close() error {
	n.left.Store(true)
	return n.Conn.Close()
}

func (l *pipes) dial(ctx context.Context, from netip.AddrPort) (net.Conn, error) {
	near, far := net.Pipe()
	left := new(atomic.Bool)
	select {
	case l.conns <- pipe{far, from, left}:
		return nearEnd{near, left}, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 254), Port: 80} }
