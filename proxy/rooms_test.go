package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter"
	"tempomat/proxy/backend"
)

// rooms are the files that stand between a socket and whoever reads or writes there.
type rooms struct {
	mu    sync.Mutex
	files map[string]bool // as proxy/handler.go
}

// note takes in the files of this module that have called.
func (r *rooms) note() {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "tempomat/") && !strings.HasSuffix(f.File, "_test.go") {
			_, file, _ := strings.Cut(f.Function, "tempomat/")
			pack, _, _ := strings.Cut(file[strings.LastIndex(file, "/")+1:], ".")
			r.files[filepath.Join(file[:strings.LastIndex(file, "/")+1], pack, filepath.Base(f.File))] = true
		}
		if !more {
			return
		}
	}
}

// seenConn tells the rooms of each read and each write.
type seenConn struct {
	net.Conn
	rooms *rooms
}

func (c seenConn) Read(p []byte) (int, error)  { c.rooms.note(); return c.Conn.Read(p) }
func (c seenConn) Write(p []byte) (int, error) { c.rooms.note(); return c.Conn.Write(p) }

type seenListener struct {
	net.Listener
	rooms *rooms
}

func (l seenListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return seenConn{c, l.rooms}, nil
}

// TestAGetPassesFewRooms: who follows the bytes of a GET from the client's socket to the
// backend's and back reads at most six files of this package, in at most four packages, and
// finds each of them in ARCHITECTURE.md.
func TestAGetPassesFewRooms(t *testing.T) {
	seen := &rooms{files: map[string]bool{}}
	answers := benchBackend(t)
	dial := func(ctx context.Context) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", answers.Host)
		return seenConn{c, seen}, err
	}
	upstream := &Upstream{timeout: time.Minute, pool: backend.NewPool(dial, answers.Host, time.Minute), log: zap.NewNop()}
	t.Cleanup(upstream.Close)
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(benchHandler(t, limiter.Fair, upstream), ServerOptions{Header: time.Minute, Idle: time.Minute, Log: zap.NewNop()})
	served := make(chan error, 1)
	go func() { served <- s.Serve(plain(seenListener{l, seen})) }()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + l.Addr().String() + "/page")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || len(body) != len(benchBody) {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	_ = res.Body.Close()
	if err := errors.Join(s.Drain(t.Context()), <-served); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	packages, own := map[string]bool{}, 0
	for _, file := range slices.Sorted(maps.Keys(seen.files)) {
		t.Log(file)
		packages[filepath.Dir(file)] = true
		if filepath.Dir(file) == "proxy" {
			own++
		}
		if !strings.Contains(string(text), "`"+file+"`") {
			t.Errorf("ARCHITECTURE.md does not name %s", file)
		}
	}
	if own == 0 || own > 6 || len(packages) > 4 {
		t.Errorf("%d files of proxy in %d packages, want at most 6 in 4", own, len(packages))
	}
}
