package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestUnixSockets: a sidecar with no port at all.
func TestUnixSockets(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	front, back := filepath.Join(dir, "front.sock"), filepath.Join(dir, "back.sock")
	l, err := net.Listen("unix", back)
	if err != nil {
		t.Fatal(err)
	}
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Forwarded-For"))
	})}
	done := make(chan error, 1)
	go func() { done <- backend.Serve(l) }()
	t.Cleanup(func() {
		_ = backend.Close()
		<-done
	})
	s := startProxy(t, "unix:"+back, "listen: [\"unix:"+front+"\"]\n")
	h := http.Header{"Host": {"www.example.com"}, "X-Forwarded-For": {"203.0.113.9"}}
	a := fetch(t, newUnixClient(t, front), http.MethodGet, "http://socket/a%2Fb?c;d", h, nil)
	if want := "www.example.com /a%2Fb?c;d 203.0.113.9"; a.StatusCode != http.StatusOK || a.body != want {
		t.Errorf("%s %q, want %q", a.Status, a.body, want)
	}
	if _, ok := s.account("slash32", "203.0.113.9"); !ok {
		t.Error("the client that the proxy before it names is not known")
	}
	info, err := os.Stat(front)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket's mode: %v %v", info.Mode(), err)
	}
	s.signal(syscall.SIGTERM)
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if _, err := os.Stat(front); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestNotify: systemd is told what it waits for.
func TestNotify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	hears := func(want string) {
		t.Helper()
		buffer := make([]byte, 4096)
		_ = systemd.SetReadDeadline(time.Now().Add(testkit.Patience))
		n, err := systemd.Read(buffer)
		got := string(buffer[:n])
		if at, reloads := strings.CutPrefix(got, "RELOADING=1\nMONOTONIC_USEC="); reloads {
			if usec, err := strconv.ParseUint(strings.TrimSuffix(at, "\n"), 10, 64); err != nil || usec == 0 {
				t.Fatalf("reloads at %q: %v", at, err)
			}
			got = "RELOADING=1"
		}
		if err != nil || got != want {
			t.Fatalf("systemd hears %q %v, want %q", got, err, want)
		}
	}
	s := startProxyWith(t, []string{"NOTIFY_SOCKET=" + path}, nil, "http://127.0.0.1:9", "")
	hears("FDSTORE=1\nFDNAME=kept-127.0.0.1%3A0")
	hears("READY=1")
	s.signal(syscall.SIGHUP)
	hears("RELOADING=1")
	hears("READY=1")
	s.configure(t, "http://127.0.0.1:9", "throttle: {mode: fast}\n")
	s.signal(syscall.SIGHUP)
	hears("RELOADING=1") // a bad file is no reason to be down
	hears("READY=1")
	s.signal(syscall.SIGTERM)
	hears("STOPPING=1")
}
