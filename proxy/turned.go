package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"

	"tempomat/proxy/front"
)

// turned is the connections that turned out to be HTTP/2, as a listener for the server
// of these.
type turned struct {
	conns  chan *front.Turned
	closed chan struct{}
	once   sync.Once
}

func newTurned() *turned {
	return &turned{conns: make(chan *front.Turned), closed: make(chan struct{})}
}

// add hands a connection over.
func (t *turned) add(c *front.Turned) {
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

// place tells a connection's place what its streams do.
func place(c net.Conn, state http.ConnState) {
	t, ok := c.(*front.Turned)
	if !ok || t.Place == nil {
		return
	}
	switch state {
	case http.StateActive:
		t.Place.Busy() // one that was closed meanwhile says so when it is read
	case http.StateIdle:
		t.Place.Idle(time.Now())
	case http.StateNew, http.StateHijacked, http.StateClosed:
	}
}
