package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/front"
	"tempomat/proxy/h2bound"
)

// manyClients is for how many clients' requests a trusted proxy's connection is bounded.
// It has 250 streams at a time, as net/http allows for, and a browser that reads a page has
// some 30.
const manyClients = 8

// turned is the connections that turned out to be HTTP/2, as a listener for the server
// of these. What each may have that server do is bounded.
type turned struct {
	options ServerOptions
	log     *zap.Logger
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once

	addresses h2bound.Addresses
}

func newTurned(o ServerOptions) *turned {
	return &turned{options: o, log: Capped(o.Log), conns: make(chan net.Conn), closed: make(chan struct{})}
}

// add hands a connection over.
func (t *turned) add(c *front.Turned) {
	o := h2bound.Options{Clients: 1, Flooded: t.tell}
	if t.options.Peer != nil {
		peer, trusted := t.options.Peer(c.RemoteAddr().String())
		if trusted {
			o.Clients = manyClients
		} else {
			o.Addresses, o.Client = &t.addresses, peer
		}
	}
	select {
	case t.conns <- h2bound.New(c, o):
	case <-t.closed:
		_ = c.Close() // nobody serves it
	}
}

// tell logs that a connection is closed as its client floods it.
func (t *turned) tell(c net.Conn, why h2bound.Flood) {
	t.log.Warn("closed a connection of HTTP/2 that was flooded", zap.Stringer("client", c.RemoteAddr()), zap.Error(why))
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
	t, ok := h2bound.Unwrap(c).(*front.Turned)
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
