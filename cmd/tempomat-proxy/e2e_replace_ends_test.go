package main

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tempomat/proxy/handover"
)

// TestReplaceFails: a process that cannot serve leaves the one that runs as it is, and
// so does one that is not to be asked.
func TestReplaceFails(t *testing.T) {
	url, _, _ := pageBackend(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := tempDir(t)
	socket, state := filepath.Join(dir, "front.sock"), filepath.Join(dir, "state")
	good := "state: " + state + "\nlisten: [\"127.0.0.1:0\", \"unix:" + socket + "\"]\n"
	s := startProxy(t, url, good)
	for name, c := range map[string]struct{ yaml, want string }{
		"an address is taken": {strings.Replace(good, "]", ", \""+taken.Addr().String()+"\"]", 1), "address already in use"},
		"it is wrong":         {"throttle: {mode: fast}\n", "throttle.mode"},
	} {
		s.configure(t, url, c.yaml)
		status, _, errs := execute(t, nil, program(t, "tempomat-proxy"), "-replace", "-config", s.file)
		if status != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, %s", name, status, errs)
		}
		if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
			t.Errorf("%s: %s", name, a.Status)
		}
		if a := fetch(t, newUnixClient(t, socket), http.MethodGet, "http://socket/", nil, nil); a.StatusCode != 200 {
			t.Errorf("%s: %s at the unix socket", name, a.Status)
		}
	}
	s.stderr.await(t, 0, "nothing was handed over; this process goes on")
	s.configure(t, url, good)
	next := s.successor()
	if status := s.exit(); status != 0 || next.url != s.url {
		t.Errorf("exit status %d, and %s is served, not %s", status, next.url, s.url)
	}
	next.signal(syscall.SIGTERM)
	next.exit()
	for _, file := range []string{socket, s.admin} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left behind", file)
		}
	}
}

// TestReplaceInterrupted plays the process that takes over, up to where one of the two
// ends.
func TestReplaceInterrupted(t *testing.T) {
	url, _, _ := pageBackend(t)
	front := filepath.Join(tempDir(t), "front.sock")
	s := startProxy(t, url, "state: off\nlisten: [\"127.0.0.1:0\", \"unix:"+front+"\"]\n")
	ask := func() (*handover.Taker, error) {
		taker, err := handover.Ask(t.Context(), s.admin, handoverLimits())
		if err != nil {
			return nil, err
		}
		return taker, taker.Parts(func(string, []byte) error { return nil })
	}
	taker, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); !errors.Is(err, handover.ErrWithdrawn) || !strings.Contains(err.Error(), "another process is taking over") {
		t.Errorf("two take over at the same time: %v", err)
	}
	taker.Close() // as if it were killed
	s.stderr.await(t, 0, "nothing was handed over; this process goes on")
	for range 4 {
		if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}

	if taker, err = ask(); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGKILL)
	<-s.ended
	if err := taker.Serving(taker.Sockets); err != nil {
		t.Errorf("the process that ran was killed: %v", err)
	}
	for _, l := range taker.Sockets {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Errorf("nobody listens at %s: %v", l.Addr(), err)
			continue
		}
		_ = c.Close()
	}
	handover.Close(taker.Sockets)
	for _, file := range []string{front, s.admin} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left behind", file)
		}
	}
}

// TestReplaceAsItEnds: a process that is told to end while another one takes over leaves
// the files of the sockets to that.
func TestReplaceAsItEnds(t *testing.T) {
	url, _, _ := pageBackend(t)
	front := filepath.Join(tempDir(t), "front.sock")
	s := startProxy(t, url, "state: off\nlisten: [\"unix:"+front+"\"]\n")
	taker, err := handover.Ask(t.Context(), s.admin, handoverLimits())
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Parts(func(string, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, s.stderr)
	}
	if err := taker.Serving(taker.Sockets); err != nil {
		t.Error(err)
	}
	for _, file := range []string{front, s.admin} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s is gone: %v", file, err)
		}
	}
	handover.Close(taker.Sockets)
}
