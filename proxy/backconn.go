package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
)

// dialer is net.Dialer's DialContext.
type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// backConn is a connection to the backend whose end can be seen.
type backConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{} // closed by Close
}

// seen has a dialer make such connections.
func (d dialer) seen(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &backConn{Conn: c, closed: make(chan struct{})}, nil
}

// Close implements net.Conn.
func (c *backConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// CloseWrite closes the half that requests go by.
func (c *backConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
