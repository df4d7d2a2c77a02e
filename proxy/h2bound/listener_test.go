package h2bound

import "net"

// listen bounds what a listener accepts.
func listen(l net.Listener, o Options) net.Listener { return listener{Listener: l, options: o} }

type listener struct {
	net.Listener
	options Options
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return New(c, l.options), nil
}
