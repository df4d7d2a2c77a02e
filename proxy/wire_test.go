package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/backend"
)

// pool returns a pool of connections to the backend at the other end of a wire.
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
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return wire{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}}
}

// serveEach runs a function for each connection, until the test ends.
func (w wire) serveEach(t *testing.T, serve func(net.Conn)) {
	go func() {
		for {
			c, err := w.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	t.Cleanup(func() { _ = w.Close() })
}

// connect opens a connection that lasts until the test ends.
func (w wire) connect(t *testing.T) net.Conn {
	t.Helper()
	c, err := w.dial(t.Context(), "", "")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// say sends a text over a new connection, and returns the response after reading its body.
func (w wire) say(t *testing.T, text string) (*http.Response, string) {
	t.Helper()
	c := w.connect(t)
	defer c.Close()
	go func() { _, _ = io.WriteString(c, text) }() // the server may refuse it half way
	method, _, _ := strings.Cut(text, " ")
	res := answer(t, bufio.NewReader(c), method)
	return res, readAll(t, res)
}

// memory is a network that works in a synctest bubble.
func memory() wire { return inMemory(testkit.NewPipes(), "192.0.2.1") }

// from returns the same network for a client with a different address.
func (w wire) from(address string) wire { return inMemory(w.Listener.(*testkit.Pipes), address) }

func inMemory(l *testkit.Pipes, client string) wire {
	remote := netip.AddrPortFrom(netip.MustParseAddr(client), 1024)
	return wire{l, func(ctx context.Context, _, _ string) (net.Conn, error) {
		near, far := net.Pipe()
		left := new(atomic.Bool)
		return nearEnd{near, left}, l.Offer(ctx, farEnd{far, remote, left})
	}}
}

// farEnd is the proxy's or the backend's end.
type farEnd struct {
	net.Conn
	remote netip.AddrPort
	left   *atomic.Bool // whether the other end was closed
}

func (f farEnd) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(f.remote) }

// LocalAddr returns the address of the machine that accepts the connection.
func (f farEnd) LocalAddr() net.Addr {
	local := netip.MustParseAddr("198.51.100.80")
	if f.remote.Addr().IsLoopback() {
		local = f.remote.Addr()
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 80))
}

// HasLeft reports whether the other end has closed, as the kernel does for its own connections.
func (f farEnd) HasLeft() bool { return f.left.Load() }

// nearEnd is the client's or the proxy's end.
type nearEnd struct {
	net.Conn
	left *atomic.Bool
}

func (n nearEnd) Close() error {
	n.left.Store(true)
	return n.Conn.Close()
}
