//go:build cgo

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestAddressIsTaken: without its addresses a master is none, and ends at once.
func TestAddressIsTaken(t *testing.T) {
	host, port := "127.0.0.1", testkit.FreePorts(t, 2)
	file := filepath.Join(t.TempDir(), "m.yaml")
	text := fmt.Sprintf("listen: tcp://%s:%d\ndomains: {api: {rate: 5/sec, burst: 10}}\nadmin: {listen: \"unix:%s/a\"}\n", host, port, shortDir(t))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []int{port, port + 1} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", host, taken))
		if err != nil {
			t.Fatal(err)
		}
		p := start(t, "-config", file)
		if status := p.exit(); status != 1 {
			t.Errorf("the exit status is %d", status)
		}
		if said, want := p.stderr.String(), fmt.Sprintf("tcp://%s:%d: address already in use", host, taken); !strings.Contains(said, want) {
			t.Errorf("it says %q, not %q", said, want)
		}
		_ = l.Close()
	}
}

// TestNoDoctor: without its admin socket and its metrics a master goes on.
func TestNoDoctor(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := shortDir(t)
	m := &masterProcess{file: filepath.Join(dir, "m.yaml"), admin: dir} // which is no socket
	m.configure(t, fmt.Sprintf("listen: ipc://%s/m\ndomains: {api: {rate: 5/sec, burst: 10}}\nmetrics: %q\n", dir, l.Addr()))
	m.restart(t)
	m.await(0, `"msg":"can't open the admin socket; tempomat-doctor won't work"`, dir)
	m.await(0, `"msg":"no metrics"`, "address already in use")
}
