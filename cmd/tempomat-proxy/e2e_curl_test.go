package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestCurl has the client that everybody has send and fetch in every way that it knows.
func TestCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test needs curl, which is not here: make deps")
	}
	content := strings.Repeat("0123456789", 10000)
	end := make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/upload":
			b, err := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s %d %t %v", r.Method, len(b), string(b) == content, err)
		case "/late":
			<-end
		case "/refused":
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusForbidden)
		default:
			http.ServeContent(w, r, "content.txt", time.Unix(1e9, 0), strings.NewReader(content))
		}
	}))
	t.Cleanup(func() {
		close(end)
		backend.Close()
	})
	s := startProxy(t, backend.URL, observed)
	dir := tempDir(t)
	file, part := filepath.Join(dir, "file"), filepath.Join(dir, "part")
	writeFile(t, file, content)
	writeFile(t, part, content[:70000])
	const told = "\n%{http_version} %{http_code} %{size_download} %{size_upload} %{num_connects}\n"
	for _, c := range []struct{ name, args, want string }{
		{"HTTP/1.0", "--http1.0 -r 2-5 /", "2345\n1.1 206 4 0 1"},
		{"HTTP/1.1", "--http1.1 -r 2-5 /", "2345\n1.1 206 4 0 1"},
		{"HTTP/2", "--http2-prior-knowledge -r 2-5 /", "2345\n2 206 4 0 1"},
		{"HTTP/2, asked for by an upgrade", "--http2 -r 2-5 /", "2345\n1.1 206 4 0 1"},
		{"one connection", "-r 2-5 / -r 2-5 /", "2345\n1.1 206 4 0 1\n2345\n1.1 206 4 0 0"},
		{"HEAD", "-I -o /dev/null /", "\n1.1 200 0 0 1"},
		{"resume", "-C - -o " + part + " /", "\n1.1 206 30000 0 1"},
		{"upload", "-T " + file + " /upload", "PUT 100000 true <nil>\n1.1 200 21 100000 1"},
		{"upload, HTTP/1.0", "--http1.0 -T " + file + " /upload", "PUT 100000 true <nil>\n1.1 200 21 100000 1"},
		{"upload, HTTP/2", "--http2-prior-knowledge -T " + file + " /upload", "PUT 100000 true <nil>\n2 200 21 100000 1"},
		{"upload that waits", "--expect100-timeout 20 -H Expect:100-continue -T " + file + " /upload", "PUT 100000 true <nil>\n1.1 200 21 100000 1"},
		{"upload that is refused", "--expect100-timeout 20 -H Expect:100-continue -T " + file + " /refused", "\n1.1 403 0 0 1"},
	} {
		args := []string{"-sS", "--noproxy", "*", "-w", told}
		for word := range strings.FieldsSeq(c.args) {
			if strings.HasPrefix(word, "/") && !strings.HasPrefix(word, dir) && word != "/dev/null" {
				word = s.url + word
			}
			args = append(args, word)
		}
		if status, out, errs := execute(t, nil, "curl", args...); status != 0 || strings.TrimSuffix(out, "\n") != c.want {
			t.Errorf("%s: status %d, %q, want %q\n%s", c.name, status, out, c.want, errs)
		}
	}
	if _, out, _ := execute(t, nil, "cat", part); out != content {
		t.Error("what was resumed is not what it was")
	}
	if status, _, _ := execute(t, nil, "curl", "-sS", "--noproxy", "*", "--max-time", "0.2", s.url+"/late"); status != 28 {
		t.Errorf("a client that gives up ends with status %d", status)
	}
	if a := s.get("203.0.113.1", "/"); a.StatusCode != http.StatusOK {
		t.Errorf("after that: %s", a.Status)
	}
}

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

// TestCurlGetsHalfAnAnswer has answers to POST that break off, on connections of curl's that have
// served a request before: it repeats what it got not a byte of. The request reaches the backend
// once, half a page is not taken for a whole one, and there is as much of it as nginx gives.
func TestCurlGetsHalfAnAnswer(t *testing.T) {
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
