package testkit

import (
	"context"
	"net"
	"sync"
)

// Pipes is a listener in memory. It provides connections to tests in a bubble of testing/synctest. Its methods
// may be called concurrently.
type Pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// NewPipes makes a Pipes.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Dial returns the client's end of a connection as soon as the server has accepted the other end. Its errors
// are those of Offer.
func (l *Pipes) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	return near, l.Offer(ctx, far)
}

// Offer waits until the server's end of a connection is accepted. It returns the context's error, or
// net.ErrClosed after Close.
func (l *Pipes) Offer(ctx context.Context, far net.Conn) error {
	select {
	case l.conns <- far:
		return nil
	case <-l.closed:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Accept implements net.Listener. After Close, it returns net.ErrClosed.
func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Accepted connections stay open.
func (l *Pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Pipes) Addr() net.Addr { return &net.UnixAddr{} }
