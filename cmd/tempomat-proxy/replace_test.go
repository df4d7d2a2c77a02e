package main

import (
	"net"
	"strings"
	"testing"

	"tempomat/proxy/handover"
)

// fixedListener listens nowhere and says that it does.
type fixedListener struct {
	net.Listener
	at net.Addr
}

func (l fixedListener) Addr() net.Addr { return l.at }

// TestIsAlike: an address may be spelt in another way, and still is the same.
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
			if isAlike(address, s) != want {
				t.Errorf("%s, which listens at %s, is alike %s: want %t", c.was, c.at, address, want)
			}
		}
	}
}

// TestReplaceWrongly: what cannot be asked for.
func TestReplaceWrongly(t *testing.T) {
	file := tempDir(t) + "/tempomat.yaml"
	writeFile(t, file, "listen: 127.0.0.1:0\nbackend: http://127.0.0.1:1\nadmin: {listen: off}\nstate: off\n")
	for args, want := range map[string]struct {
		status int
		err    string
	}{
		"-replace -config " + file:        {1, "-replace: the process that runs is asked at admin.listen, which is off"},
		"-replace -check -config " + file: {2, "-replace goes with -config only"},
		"-replace -demo":                  {2, "-replace goes with -config only"},
	} {
		var out, errs strings.Builder
		if status := run(t.Context(), strings.Fields(args), nil, &out, &errs); status != want.status || !strings.Contains(errs.String(), want.err) {
			t.Errorf("%s: status %d, %s", args, status, errs.String())
		}
	}
}
