package main

import (
	"net"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/handover"
)

// fixedListener has an address but doesn't listen on it.
type fixedListener struct {
	net.Listener
	at net.Addr
}

func (l fixedListener) Addr() net.Addr { return l.at }

// TestIsAlike checks that two spellings of an address count as the same.
func TestIsAlike(t *testing.T) {
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	for _, c := range []struct {
		was  string
		at   net.Addr
		asks map[string]bool
	}{
		{":8888", tcp("::", 8888), map[string]bool{":8888": true, "[::]:8888": true, ":8889": false, "0.0.0.0:8888": false, "127.0.0.1:8888": false}},
		{"127.0.0.1:8888", tcp("127.0.0.1", 8888), map[string]bool{"127.0.0.1:8888": true, "localhost:8888": true, "127.0.0.2:8888": false, ":8888": false, "unix:/run/a": false, "no address": false}},
		{"127.0.0.1:0", tcp("127.0.0.1", 4711), map[string]bool{"127.0.0.1:0": true, "127.0.0.1:4711": true, "localhost:0": false}},
		{"unix:/run/a", &net.UnixAddr{Name: "/run/a", Net: "unix"}, map[string]bool{"unix:/run/a": true, "unix:/run/b": false, ":8888": false}},
	} {
		s := handover.Socket{Listener: fixedListener{at: c.at}, Address: c.was}
		for address, want := range c.asks {
			testkit.Same(t, want, isAlike(address, s), "%s, which listens at %s, is alike %s", c.was, c.at, address)
		}
	}
}
