package proxy

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
)

// rooms are the source files between a socket and the code that reads or writes there.
type rooms struct {
	mu    sync.Mutex
	files map[string]bool // as proxy/handler.go
}

// note records this module's files in the call stack.
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

// seenConn records the rooms of each read and each write.
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

// TestAGetPassesFewRooms: to follow the bytes of a GET from the client's socket to the backend's and back, a
// reader needs at most six files of this package, in at most four packages, all of which are in
// ARCHITECTURE.md.
func TestAGetPassesFewRooms(t *testing.T) {
	seen := &rooms{files: map[string]bool{}}
	front, back := loopback(t), loopback(t)
	dial := back.dial
	front.Listener = seenListener{front.Listener, seen}
	back.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		return seenConn{c, seen}, err
	}
	rawBackend(t, back, func(string) string { return withBody(string(benchBody)) })
	r := startOn(t, front, back, nil, fairly, unbuffered)
	if _, body := r.do(r.client, request(t, nil, "GET /page")); body != string(benchBody) {
		t.Errorf("%d bytes", len(body))
	}
	r.stop()
	text := testkit.ReadFile(t, "../ARCHITECTURE.md")
	packages, own := map[string]bool{}, 0
	for _, file := range slices.Sorted(maps.Keys(seen.files)) {
		t.Log(file)
		packages[filepath.Dir(file)] = true
		if filepath.Dir(file) == "proxy" {
			own++
		}
		if !strings.Contains(text, "`"+file+"`") {
			t.Errorf("ARCHITECTURE.md does not name %s", file)
		}
	}
	if own == 0 || own > 6 || len(packages) > 4 {
		t.Errorf("%d files of proxy in %d packages, want at most 6 in 4", own, len(packages))
	}
}
