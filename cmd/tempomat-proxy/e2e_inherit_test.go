package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// supervised is a socket that is open whatever process serves it, as systemd's are.
func supervised(t *testing.T) (net.Listener, *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return l, socket
}

// restartsByHandedOver starts the program anew again and again, with a socket that is
// handed over, as systemd does, while clients ask all the time.
func restartsByHandedOver(t *testing.T, clients, restarts int, requests int64) *askers {
	backend, _, _ := pageBackend(t)
	l, socket := supervised(t)
	dir := tempDir(t)
	file := filepath.Join(dir, "tempomat.yaml")
	writeFile(t, file, fmt.Sprintf("backend: %s\nlisten: 192.0.2.1:1\nstate: %s\nadmin: {listen: off}\nlog: {access: off}\n", backend, filepath.Join(dir, "state")))
	start := func() *process {
		p := startProcessWith(t, []*os.File{socket}, []string{"LISTEN_FDS=1"}, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", file)
		p.stderr.await(t, 0, `"msg":"serving"`)
		p.stderr.await(t, 0, `"msg":"nobody serves an address of listen`)
		return p
	}
	p := start()
	a := startAskers(t, "http://"+l.Addr().String()+"/", clients)
	for i := range restarts {
		a.until(requests * int64(i+1) / int64(restarts+1))
		p.signal(os.Interrupt)
		if status := p.exit(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, p.stderr)
		}
		p = start()
	}
	a.until(requests)
	a.end()
	return a
}

// TestRestartsRefuseNobody is for systemd's way, TestReplaceRefusesNobody for ours.
func TestRestartsRefuseNobody(t *testing.T) {
	a := restartsByHandedOver(t, 16, 4, 400)
	if a.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", a.failed.Load(), a.asked.Load())
	}
}

// TestHandedOverNonsense: what is no socket is told, and a socket that the backend's address leads to.
func TestHandedOverNonsense(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	l, own := supervised(t)
	for want, f := range map[string]*os.File{"is no listening socket": null, "requests would go in a circle": own} {
		p := startProcessWith(t, []*os.File{f}, []string{"LISTEN_FDS=1", "TEMPOMAT_BACKEND=http://" + l.Addr().String(), "TEMPOMAT_ADMIN_LISTEN=off"},
			"/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", os.DevNull)
		if p.exit() == 0 {
			t.Error("it ended as if all were well")
		}
		p.stderr.await(t, 0, want)
	}
}
