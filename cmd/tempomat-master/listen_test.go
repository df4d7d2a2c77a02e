//go:build cgo

package main

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestAddressIsTaken: if one of its addresses is in use, a master ends at once.
func TestAddressIsTaken(t *testing.T) {
	host, port := "127.0.0.1", testkit.FreePorts(t, 2)
	file := filepath.Join(t.TempDir(), "m.yaml")
	text := fmt.Sprintf("listen: tcp://%s:%d\ndomains: {api: {rate: 5/sec, burst: 10}}\nadmin: {listen: \"unix:%s/a\"}\n", host, port, testkit.ShortDir(t))
	testkit.WriteFile(t, file, text, 0o600)
	for _, taken := range []int{port, port + 1} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, taken))
		testkit.Must(t, err)
		p := start(t, "-config", file)
		p.Exits(1)
		if said, want := p.Stderr.String(), fmt.Sprintf("tcp://%s:%d: address already in use", host, taken); !strings.Contains(said, want) {
			t.Errorf("it says %q, not %q", said, want)
		}
		_ = l.Close()
	}
}

// TestNoDoctor: a master continues without its admin socket and its metrics.
func TestNoDoctor(t *testing.T) {
	l := testkit.Listen(t)
	dir := testkit.ShortDir(t)
	m := &masterProcess{t: t, file: filepath.Join(dir, "m.yaml"), admin: dir} // a directory instead of a socket
	m.configure(fmt.Sprintf("listen: ipc://%s/m\ndomains: {api: {rate: 5/sec, burst: 10}}\nmetrics: %q\n", dir, l.Addr()))
	m.restart()
	m.await(0, `"msg":"can't open the admin socket; tempomat-doctor won't work"`, dir)
	m.await(0, `"msg":"can't listen on the metrics address; Prometheus can't read the metrics"`, "address already in use")
}
