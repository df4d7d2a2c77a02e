//go:build world

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// breaker is a backend whose answers to POST break off, after so many bytes of 200,000 as the
// path says. It counts how often each path was asked for.
type breaker struct {
	mu    sync.Mutex
	asked map[string]int
}

func (b *breaker) listen(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go b.serve(c)
		}
	}()
	return l.Addr().String()
}

func (b *breaker) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodPost {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			continue
		}
		b.mu.Lock()
		b.asked[r.URL.Path]++
		b.mu.Unlock()
		_, how, _ := strings.Cut(r.URL.Path[1:], "/")
		framing, size, _ := strings.Cut(how, "/")
		n, err := strconv.Atoi(size)
		switch body := strings.Repeat("0123456789", 20000); {
		case err != nil: // not even a head
		case framing == "chunked":
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body), body[:n])
		default:
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:n])
		}
		return
	}
}

func (b *breaker) times(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked[path]
}

// TestWorldCurlGetsHalfAnAnswer has answers to POST that break off, on connections of curl's that have
// served a request before: it repeats what it got not a byte of. The request reaches the backend
// once, half a page is not taken for a whole one, and there is as much of it as nginx gives.
func TestWorldCurlGetsHalfAnAnswer(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test needs curl, which is not here: make deps")
	}
	b := &breaker{asked: map[string]int{}}
	next := b.listen(t)
	nginx := "http://" + startNginx(t, next)
	ask := func(url, version, path string) (status int, told string) {
		t.Helper()
		options := "-s --noproxy * -o /dev/null " + version
		before := options + " " + url + "/ --next " + options
		switch version {
		case "--http1.0":
			before = "-H Connection:keep-alive " + before
		case "--http2-prior-knowledge": // of which this curl cannot use a connection twice
			before = options
		}
		args := strings.Fields(before)
		status, told, _ = execute(t, nil, "curl", append(args, "-d", "x=y", "-w", "%{http_code} %{num_connects} %{size_download}", url+path)...)
		return status, told
	}
	for _, mode := range []string{"observe", "fair", "cooperative"} {
		s := startProxy(t, "http://"+next, "throttle: {mode: "+mode+"}\nstate: off\n")
		for _, version := range []string{"--http1.0", "--http1.1", "--http2-prior-knowledge"} {
			for _, framing := range []string{"length", "chunked"} {
				for _, size := range []string{"none", "0", "1", "100", "8000", "100000"} {
					name := "/" + mode + version + "/" + framing + "/" + size
					status, told := ask(s.url, version, name)
					if n := b.times(name); n != 1 || status == 0 && !strings.HasPrefix(told, "502 ") {
						t.Errorf("%s: curl ends with status %d, after %q; the backend was asked %d times", name, status, told, n)
					}
					if mode != "observe" || version == "--http2-prior-knowledge" {
						continue
					}
					_, want := ask(nginx, version, "/nginx-"+name[1:])
					if version == "--http1.0" && framing == "chunked" || size == "none" {
						// what nginx sends is taken for the whole page, and its own 502 has another length
						told, want = told[:3], want[:3]
					}
					if told != want {
						t.Errorf("%s: curl gets %q, from nginx %q", name, told, want)
					}
				}
			}
		}
	}
}
