package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestCurl: curl sends and fetches in every way that it supports, with and without TLS.
func TestCurl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test needs curl, which is not here: make deps")
	}
	content := strings.Repeat("0123456789", 10000)
	end := make(chan struct{})
	backend := startBackend(t, func(w http.ResponseWriter, r *http.Request) {
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
	})
	t.Cleanup(func() { close(end) })
	s := startProxy(t, backend, observed)
	secure := startSecure(t, backend, overTLS+observed)
	_, port, _ := net.SplitHostPort(secure.site)
	dir := tempDir(t)
	file, part := filepath.Join(dir, "file"), filepath.Join(dir, "part")
	testkit.ReplaceFile(t, file, content)
	for root, flags := range map[string]string{
		s.url:                          "",
		"https://site.example:" + port: "--cacert " + secure.caFile + " --connect-to site.example:" + port + ":" + secure.site,
	} {
		h2 := map[bool]string{true: "--http2", false: "--http2-prior-knowledge"}[flags != ""]
		plain := map[bool]string{true: "2", false: "1.1"}[flags != ""] // the version that --http2 leads to
		testkit.ReplaceFile(t, part, content[:70000])
		const told = "\n%{http_version} %{http_code} %{size_download} %{size_upload} %{num_connects}\n"
		for _, c := range []struct{ name, args, want string }{
			{"HTTP/1.0", "--http1.0 -r 2-5 /", "2345\n1.1 206 4 0 1"},
			{"HTTP/1.1", "--http1.1 -r 2-5 /", "2345\n1.1 206 4 0 1"},
			{"HTTP/2", h2 + " -r 2-5 /", "2345\n2 206 4 0 1"},
			{"HTTP/2, asked for by an upgrade or in the handshake", "--http2 -r 2-5 /", "2345\n" + plain + " 206 4 0 1"},
			{"no newer than TLS 1.2", "--http1.1 --tls-max 1.2 -r 2-5 /", "2345\n1.1 206 4 0 1"},
			{"one connection", "--http1.1 -r 2-5 / -r 2-5 /", "2345\n1.1 206 4 0 1\n2345\n1.1 206 4 0 0"},
			{"HEAD", "--http1.1 -I -o /dev/null /", "\n1.1 200 0 0 1"},
			{"all of it", h2 + " /", content + "\n2 200 100000 0 1"},
			{"resume", "--http1.1 -C - -o " + part + " /", "\n1.1 206 30000 0 1"},
			{"upload", "--http1.1 -T " + file + " /upload", "PUT 100000 true <nil>\n1.1 200 21 100000 1"},
			{"upload, HTTP/1.0", "--http1.0 -T " + file + " /upload", "PUT 100000 true <nil>\n1.1 200 21 100000 1"},
			{"upload, HTTP/2", h2 + " -T " + file + " /upload", "PUT 100000 true <nil>\n2 200 21 100000 1"},
			{"upload that waits", "--http1.1 --expect100-timeout 20 -H Expect:100-continue -T " + file + " /upload", "PUT 100000 true <nil>\n1.1 200 21 100000 1"},
			{"upload that is refused", "--http1.1 --expect100-timeout 20 -H Expect:100-continue -T " + file + " /refused", "\n1.1 403 0 0 1"},
		} {
			args := append([]string{"-sS", "--noproxy", "*", "-w", told}, strings.Fields(flags)...)
			for word := range strings.FieldsSeq(c.args) {
				if strings.HasPrefix(word, "/") && !strings.HasPrefix(word, dir) && word != "/dev/null" {
					word = root + word
				}
				args = append(args, word)
			}
			if status, out, errs := testkit.Execute(t, nil, "curl", args...); status != 0 || strings.TrimSuffix(out, "\n") != c.want {
				t.Errorf("%s at %s: status %d, %.200q, want %.200q\n%s", c.name, root, status, out, c.want, errs)
			}
		}
		if _, out, _ := testkit.Execute(t, nil, "cat", part); out != content {
			t.Error("what was resumed is not what it was")
		}
	}
	if status, _, _ := testkit.Execute(t, nil, "curl", "-sS", "--noproxy", "*", "--max-time", "0.2", s.url+"/late"); status != 28 {
		t.Errorf("a client that gives up ends with status %d", status)
	}
	s.served("203.0.113.1")
}
