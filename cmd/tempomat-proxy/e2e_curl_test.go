package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCurl has the client that everybody has send and fetch in every way that it knows.
func TestCurl(t *testing.T) {
	t.Parallel()
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
