//go:build accept

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// streamBackend takes what is uploaded, and gives ?mb= megabytes as fast as it
// can.
func streamBackend(t *testing.T) string {
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprintf(w, `{"length":%d}`, n)
			return
		}
		mb, _ := strconv.ParseInt(r.FormValue("mb"), 10, 64)
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = io.CopyN(w, zeros{}, mb*megabyte)
	}))
	t.Cleanup(b.Close)
	return b.URL
}

// TestAcceptStreams sends and fetches much, and looks at the proxy's memory.
func TestAcceptStreams(t *testing.T) {
	sayLoad(t)
	f := newFigures("backend", "", "size [MB]", "took", "MB/s", "memory idle", "most", "more")
	for _, b := range []struct {
		name, url string
		mb        int64
	}{{"Go", streamBackend(t), 2048}, {"Apache, PHP", startApache(t).url, 200}} {
		s := startProxy(t, b.url, "timeouts: {body: 5m, write: 5m}\n")
		for _, p := range protocols {
			c := p.client(t)
			fetch(t, c, http.MethodGet, s.url+"/download.php?mb=1", nil, nil)
			for _, way := range []string{"upload", "download"} {
				s.forgetMost()
				idle, _ := s.memory()
				began := time.Now()
				var n int64
				if way == "upload" {
					a := fetch(t, c, http.MethodPost, s.url+"/upload.php", nil, io.LimitReader(zeros{}, b.mb*megabyte))
					if _, length, ok := strings.Cut(a.body, `"length":`); ok {
						_, _ = fmt.Sscanf(length, "%d", &n)
					}
				} else {
					res := open(t, c, http.MethodGet, s.url+"/download.php?mb="+fmt.Sprint(b.mb), nil, nil)
					n, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				took := time.Since(began).Seconds()
				_, most := s.memory()
				f.row("%s | %s, %s | %d | %.1f s | %.0f | %.0f MB | %.0f MB | %.0f MB",
					b.name, way, p.name, n/megabyte, took, float64(b.mb)/took, idle, most, most-idle)
				if n != b.mb*megabyte {
					t.Errorf("%s, %s: %d bytes arrived, want %d", b.name, way, n, b.mb*megabyte)
				}
				if most-idle >= 64 {
					t.Errorf("%s, %s: %.0f MB more than idle, allowed are 64", b.name, way, most-idle)
				}
			}
		}
	}
	t.Log(f)
}

// TestAcceptSlowReader fetches the same large response twice: at full speed,
// and at 1 KB/s for a minute before the rest.
func TestAcceptSlowReader(t *testing.T) {
	sayLoad(t)
	const mb = 256
	s := startProxy(t, streamBackend(t), "cost: {source: wall}\nthrottle: {mode: observe}\nlog: {access: all}\n")
	read := func(name, client string, slowly time.Duration) (logLine, time.Duration) {
		seen := s.stderr.len()
		began := time.Now()
		n := readSlowly(t, s.url, fmt.Sprintf("/%s?mb=%d", name, mb), client, slowly)
		took := time.Since(began)
		if n != mb*megabyte {
			t.Errorf("%s: %d bytes came, want %d", name, n, mb*megabyte)
		}
		line, _ := s.stderr.await(t, seen, `"logger":"access"`, `"path":"/`+name+`"`)
		return parseLog(t, line), took
	}
	f := newFigures("reader", "took", "charged", "outcome")
	fast, took := read("fast", "198.51.100.1", 0)
	f.row("fast | %.2f s | %.3f s | %s", took.Seconds(), fast.Cost/1e3, fast.Outcome)
	slow, took := read("slow", "198.51.100.2", time.Minute)
	f.row("1 KB/s for a minute, then the rest | %.2f s | %.3f s | %s", took.Seconds(), slow.Cost/1e3, slow.Outcome)
	t.Log(f)
	if took < time.Minute || slow.Cost > 3*fast.Cost+100 || slow.Cost <= 0 {
		t.Errorf("the slow reader was charged %.0f ms, the fast one %.0f ms", slow.Cost, fast.Cost)
	}
}

// readSlowly reads a response of chunks: a KB each second at first, through a
// receive buffer that is as small as the system allows.
func readSlowly(t *testing.T, url, path, client string, slowly time.Duration) (n int64) {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if slowly > 0 {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
			}
		})
	}}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: %s\r\n\r\n", path, client)
	in := &paced{Conn: c, until: time.Now().Add(slowly)}
	res, err := http.ReadResponse(bufio.NewReaderSize(in, 64<<10), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	n, err = io.Copy(io.Discard, res.Body)
	if err != nil {
		t.Errorf("%s: after %d bytes: %v", path, n, err)
	}
	return n
}

// paced is a connection that is read at 1 KB/s until an instant.
type paced struct {
	net.Conn
	until time.Time
}

func (p *paced) Read(b []byte) (int, error) {
	if time.Now().Before(p.until) {
		time.Sleep(time.Second)
		b = b[:min(len(b), 1024)]
	} else if tcp, ok := p.Conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 20)
	}
	return p.Conn.Read(b)
}
