package proxy

import (
	"net"
	"sync"
)

// turned is the connections that turned out to be HTTP/2, as a listener for the server
// of these.
type turned struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newTurned() *turned {
	return &turned{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// add hands a connection over.
func (t *turned) add(c net.Conn) {
	select {
	case t.conns <- c:
	case <-t.closed:
		_ = c.Close() // nobody serves it
	}
}

// Accept implements net.Listener.
func (t *turned) Accept() (net.Conn, error) {
	select {
	case c := <-t.conns:
		return c, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *turned) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// Addr implements net.Listener. The connections were accepted at several.
func (t *turned) Addr() net.Addr { return &net.UnixAddr{} }
