package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

func TestFailures(t *testing.T) {
	path := serveAdmin(t, func() error { return errors.New("t.yaml:3: classes: wrong\nt.yaml:9: listen: wrong") })
	dead := socketPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	testkit.Must(t, err)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for _, c := range []struct {
		args []string
		want int
		text string
	}{
		{[]string{"--socket", "/nowhere/admin.sock"}, 1, "can't connect to /nowhere/admin.sock: there is no such socket. Is tempomat-proxy running?"},
		{[]string{"--socket", dead}, 1, "can't connect to " + dead + ": nothing answers there. Is tempomat-proxy running?"},
		{[]string{"--socket", path, "--bucket", "Slash8"}, 1, `class "Slash8" is unknown; known: slash32, slash24, slash16, userAgent`},
		{[]string{"--socket", path, "--sort", "title"}, 1, `sort: "title" is unknown; known: wait, cpu`},
		{[]string{"--socket", path, "--limit", "-1"}, 1, `limit: "-1" is not a whole number from 1 to 10000`},
		{[]string{"--socket", path, "explain", "slash32", "192.0.2.1"}, 1, `no key "192.0.2.1"`},
		{[]string{"--socket", path, "explain"}, 2, "an argument is missing. Usage: tempomat-doctor explain ADDRESS"},
		{[]string{"--socket", path, "reload"}, 1, "not reloaded:\nt.yaml:3: classes: wrong\nt.yaml:9: listen: wrong\n"},
		{[]string{"--socket", path, "--socket", dead, "reload"}, 1, "give one --socket, and omit --fleet"},
		{[]string{"--socket", "/run/tempomat-master/admin.sock", "reload"}, 1, "Is tempomat-master running?"},
		{[]string{"--socket", path, "status", "now"}, 2, "--help"},
		{[]string{"--frobnicate"}, 2, "unknown flag: --frobnicate"},
		{[]string{"top", "now"}, 2, `unexpected argument "now". Usage: tempomat-doctor top`},
		{[]string{"--limit", "few"}, 2, `--limit: "few" is not a whole number`},
		{[]string{"--socket", path, "report", "--limit", "-1"}, 2, "--limit"},
		{[]string{"top", "--pane", "x", "--interval", "1ms"}, 1, "known: overview, keys, pages, queue, verdicts, gate\n--interval: must be from 200ms to 1h, not 1ms"},
		{[]string{"--socket", serveOther(t, 404, `{"version":1,"error":"no such path for GET; known: "}`), "top"}, 1, "tempomat-proxy doesn't support /v1/overview because it is older than this tempomat-doctor"},
		{[]string{"pardon"}, 2, `unknown command "pardon"`},
		{[]string{"--socket", serveOther(t, 200, "<html>")}, 1, "isn't the admin API of tempomat-proxy (200 OK)"},
		{[]string{"--socket", serveOther(t, 404, "{}")}, 1, "isn't the admin API of tempomat-proxy (404 Not Found)"},
		{[]string{"--socket", serveOther(t, 200, `{"version":2,"rows":[]}`)}, 1, "version 2 of the admin API, but this tempomat-doctor has version 1"},
		{[]string{"--socket", serveOther(t, 200, `{"version":1,"classes":7}`)}, 1, "can't read the answer to /v1/classes"},
	} {
		fails(t, nil, c.want, c.text, c.args...)
	}
}

// TestSocketIsOff: if the variable switches the proxy's socket off, the doctor doesn't look for a file named off.
func TestSocketIsOff(t *testing.T) {
	fails(t, []string{listenVariable + "=off"}, 1, listenVariable+" is off", "status")
}

// TestCertificates: a line shows when the certificate expires, and the fault of a file that isn't in use.
func TestCertificates(t *testing.T) {
	var p view.Pairs
	for _, c := range []api.Certificate{{File: "b", Expires: time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC), Fault: "no key"}, {File: "c", Fault: "not issued yet"}} {
		addCertificate(&p, c)
	}
	want := "certificate b  valid to 2026-11-19; the new file is not in use: no key\ncertificate c  none: not issued yet"
	testkit.Same(t, want, strings.Join(p.Lines(), "\n"), "lines")
}

// serveOther answers all requests on a socket with the same text.
func serveOther(t *testing.T, status int, text string) (path string) {
	t.Helper()
	path = socketPath(t)
	serveSocket(t, path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	return path
}

// serveSocket serves requests on a socket until the test ends or calls stop.
func serveSocket(t *testing.T, path string, h http.Handler) (stop func()) {
	t.Helper()
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	stop = sync.OnceFunc(func() {
		_ = server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestErrorsCommandNoTerminal: a malicious program at the socket can't control the terminal.
func TestErrorsCommandNoTerminal(t *testing.T) {
	path := serveOther(t, 422, `{"version":1,"error":"first \"quoted\\x\"\n\u001b]0;mine\u0007\u009b31m\u202e\rlast"}`)
	_, _, got := call(t, nil, "status", "--socket", path)
	want := "tempomat-doctor: first \"quoted\\x\"\n\\x1b]0;mine\\a\\u009b31m\\u202e\\rlast\n"
	testkit.Same(t, want, got, "the message")
}

func TestNoPermission(t *testing.T) {
	err := (&client{name: "/run/a.sock"}).unreachable(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", os.ErrPermission)})
	if want := "can't connect to /run/a.sock: permission denied. Run this command as root, or join the socket's group"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q", err)
	}
}
