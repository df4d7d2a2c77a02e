package handover

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func listening(t *testing.T, network, at string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, at)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestKeepsNothing: a socket that can't be kept isn't sent to the manager, and isn't an error. A manager that
// doesn't answer is an error. The tests in cmd/tempomat-proxy check which sockets are kept.
func TestKeepsNothing(t *testing.T) {
	nobody := filepath.Join(t.TempDir(), "nobody")
	tcp := listening(t, "tcp", "127.0.0.1:0")
	for name, c := range map[string]struct {
		notify string
		socket Socket
		fails  bool
	}{
		"no manager":         {"", Socket{tcp, ":80"}, false},
		"a unix socket":      {nobody, Socket{listening(t, "unix", filepath.Join(t.TempDir(), "socket")), "unix:socket"}, false},
		"an endless address": {nobody, Socket{tcp, strings.Repeat("x", 300) + ":80"}, false},
		"nobody hears it":    {nobody, Socket{tcp, ":80"}, true},
	} {
		if kept, err := (Store{Notify: c.notify}).Keep(c.socket); kept || (err != nil) != c.fails {
			t.Errorf("%s: kept %t, %v", name, kept, err)
		}
		if err := (Store{Notify: c.notify}).Wait(); (err != nil) != (c.notify != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
