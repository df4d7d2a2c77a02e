package testkit

import (
	"context"
	"net"
	"sync"
)

// Pipes is a listener in memory, so that a test in a bubble of testing/synctest has
// connections. Its methods may be called concurrently.
type Pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// NewPipes makes one.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Dial returns the client's end of a connection as soon as somebody accepts the other one,
// or the context's error.
func (l *Pipes) Dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener. After Close its error is net.ErrClosed.
func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections that were accepted stay.
func (l *Pipes) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Pipes) Addr() net.Addr { return &net.UnixAddr{} }
