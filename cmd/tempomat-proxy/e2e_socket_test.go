package main

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

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
