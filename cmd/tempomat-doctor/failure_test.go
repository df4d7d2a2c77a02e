package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/proxy/admin/api"
)

func TestFailures(t *testing.T) {
	path := serveAdmin(t, func() error { return errors.New("t.yaml:3: classes: wrong\nt.yaml:9: listen: wrong") })
	dead := socketPath(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
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
		{[]string{"--socket", path, "--socket", dead, "reload"}, 1, "give one --socket, and no --fleet"},
		{[]string{"--socket", "/run/tempomat-master/admin.sock", "reload"}, 1, "Is tempomat-master running?"},
		{[]string{"--socket", path, "status", "now"}, 2, "--help"},
		{[]string{"--frobnicate"}, 2, "unknown flag: --frobnicate"},
		{[]string{"top", "now"}, 2, `unexpected argument "now". Usage: tempomat-doctor top`},
		{[]string{"--limit", "few"}, 2, `--limit: "few" is not a whole number`},
		{[]string{"report", "--hours", "0", "--limit", "0"}, 2, "--hours 0: must be 1 to 168\n--limit 0: must be at least 1"},
		{[]string{"top", "--pane", "x", "--interval", "1ms"}, 1, "known: overview, keys, pages, queue, verdicts, gate\n--interval: 1ms is not from 200ms to 1h"},
		{[]string{"--socket", serveOther(t, 404, `{"version":1,"error":"no such path for GET; known: "}`), "top"}, 1, "tempomat-proxy does not know /v1/overview: it is older than this doctor"},
		{[]string{"pardon"}, 2, `unknown command "pardon"`},
	} {
		code, stdout, stderr := call(t, nil, c.args...)
		if code != c.want || !strings.Contains(stderr, c.text) || stdout != "" {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %d and %q", c.args, code, stdout, stderr, c.want, c.text)
		}
	}
}

// TestSocketIsOff: the proxy that the environment is for has no socket, and "off" is no file.
func TestSocketIsOff(t *testing.T) {
	code, _, stderr := call(t, []string{listenVariable + "=off"}, "status")
	if code != 1 || !strings.Contains(stderr, listenVariable+" is off") {
		t.Errorf("%d, %s", code, stderr)
	}
}

// TestCertificates: what is over is said as that.
func TestCertificates(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	var p view.Pairs
	for _, c := range []api.Certificate{{File: "a", Expires: now.AddDate(0, 0, 30)}, {File: "b", Expires: now.AddDate(0, 0, -3), Fault: "no key"}, {File: "c"}} {
		addCertificate(&p, now, c)
	}
	want := "certificate a  valid to 2026-12-22 (days left: 30)\ncertificate b  expired on 2026-11-19 (days ago: 3); not in use: no key\ncertificate c  missing"
	if got := strings.Join(p.Lines(), "\n"); got != want {
		t.Error(got)
	}
}

// serveOther answers all requests on a socket with one text.
func serveOther(t *testing.T, status int, text string) (path string) {
	t.Helper()
	path = socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	})}
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return path
}

func TestOtherServers(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   string
	}{
		{200, "<html>", "not as tempomat-proxy does (200 OK)"},
		{404, "{}", "not as tempomat-proxy does (404 Not Found)"},
		{200, `{"version":2,"rows":[]}`, "version 2 of the admin API, this doctor version 1"},
		{200, `{"version":1,"classes":7}`, "can't read the answer to /v1/classes"},
	} {
		code, _, stderr := call(t, nil, "--socket", serveOther(t, c.status, c.text))
		if code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: status %d, stderr %q; want %q", c.text, code, stderr, c.want)
		}
	}
}

// TestErrorsCommandNoTerminal: what answers at a socket may not be tempomat-proxy.
func TestErrorsCommandNoTerminal(t *testing.T) {
	path := serveOther(t, 422, `{"version":1,"error":"first \"quoted\\x\"\n\u001b]0;mine\u0007\u009b31m\u202e\rlast"}`)
	_, _, got := call(t, nil, "status", "--socket", path)
	want := "tempomat-doctor: first \"quoted\\x\"\n\\x1b]0;mine\\a\\u009b31m\\u202e\\rlast\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoPermission(t *testing.T) {
	err := (&client{name: "/run/a.sock"}).unreachable(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", os.ErrPermission)})
	if want := "can't connect to /run/a.sock: permission denied. Run this as root, or join the socket's group"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %q", err)
	}
}
