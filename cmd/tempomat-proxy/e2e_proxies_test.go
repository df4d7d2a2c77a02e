package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestProxiesFile has the list of trusted proxies in a file, which a reload reads again. One
// that is wrong does not count, and neither does what else was to change with it.
func TestProxiesFile(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(strings.Join(r.Header["X-Forwarded-For"], ", ")))
	}))
	t.Cleanup(backend.Close)
	list := filepath.Join(tempDir(t), "proxies.txt")
	writeFile(t, list, "# nobody here\n192.0.2.1\n")
	s := startProxy(t, backend.URL, "trustedProxies: [\"file:"+list+"\"]\nstate: off\n")
	const client = "198.51.100.9"
	sees := func(when, want string) {
		t.Helper()
		if got := s.get(client, "/").body; got != want {
			t.Errorf("%s the backend is told of %s, want %s", when, got, want)
		}
	}
	sees("while the peer is not in it", "127.0.0.1")

	writeFile(t, list, "192.0.2.1\n\n127.0.0.0/8 # this machine\n")
	s.signal(syscall.SIGHUP)
	_, next := s.stderr.Await(t, 0, reloaded)
	sees("once it is", client+", 127.0.0.1")
	if log := s.stderr.String(); !strings.Contains(log, `"key":"trustedProxies","old":"file:`+list+` (1)","new":"file:`+list+` (2)"`) {
		t.Errorf("the change is not logged:\n%s", log)
	}

	for _, broken := range []string{"192.0.2.1\n<html>\n", "", "::/0\n"} {
		writeFile(t, list, broken)
		s.signal(syscall.SIGHUP)
		var line string
		line, next = s.stderr.Await(t, next, rejected)
		if !strings.Contains(line, list) || !strings.Contains(line, "trustedProxies") {
			t.Errorf("%q: the log does not say where: %s", broken, line)
		}
		sees("while the new one is broken", client+", 127.0.0.1")
	}
}
