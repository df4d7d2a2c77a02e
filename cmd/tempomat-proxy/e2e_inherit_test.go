package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestRestartsRefuseNobody starts the program anew again and again, with a socket that
// is handed over, as systemd does, while clients ask all the time.
func TestRestartsRefuseNobody(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	defer backend.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	dir := tempDir(t)
	file := filepath.Join(dir, "tempomat.yaml")
	writeFile(t, file, fmt.Sprintf("backend: %s\nlisten: 192.0.2.1:1\nstate: %s\nadmin: {listen: off}\n", backend.URL, filepath.Join(dir, "state")))
	start := func() *process {
		p := startProcessWith(t, []*os.File{socket}, []string{"LISTEN_FDS=1"}, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", file)
		p.stderr.await(t, 0, `"msg":"serving"`)
		return p
	}
	var asked, failed atomic.Int64
	done := make(chan struct{})
	var clients sync.WaitGroup
	p := start()
	for i := range 8 {
		clients.Go(func() {
			transport := &http.Transport{DisableKeepAlives: i%2 == 0}
			defer transport.CloseIdleConnections()
			c := &http.Client{Transport: transport, Timeout: time.Minute}
			for {
				select {
				case <-done:
					return
				default:
				}
				asked.Add(1)
				res, err := c.Get("http://" + l.Addr().String() + "/")
				if err != nil {
					t.Log(err)
					failed.Add(1)
					continue
				}
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 {
					t.Log(res.Status, err)
					failed.Add(1)
				}
			}
		})
	}
	for range 5 {
		for before := asked.Load(); asked.Load() < before+16; time.Sleep(time.Millisecond) {
		}
		p.signal(os.Interrupt)
		p.exit()
		p = start()
	}
	close(done)
	clients.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
	}
}

// TestHandedOverNonsense: what is no socket is told.
func TestHandedOverNonsense(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := startProcessWith(t, []*os.File{f}, []string{"LISTEN_FDS=1"}, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", os.DevNull)
	if p.exit() == 0 {
		t.Error("it ended as if all were well")
	}
	p.stderr.await(t, 0, "LISTEN_FDS")
}
