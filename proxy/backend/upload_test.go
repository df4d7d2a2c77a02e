package backend

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestExpect: a body waits until the backend asks for it. The body is dropped if the backend sends its answer
// instead, and sent if the backend stays silent.
func TestExpect(t *testing.T) {
	for name, c := range map[string]struct {
		first, want string
		sent        bool
	}{
		"asked for":    {"HTTP/1.1 100 Continue\r\n\r\n", "200abc", true},
		"refused":      {"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n", "413", false},
		"not answered": {"", "200abc", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bodies := make(chan string, 1)
				s := serveVirtual(t, func(cn net.Conn, br *bufio.Reader) {
					q, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.WriteString(cn, c.first)
					b, _ := io.ReadAll(q.Body)
					bodies <- string(b)
					if c.sent {
						_, _ = fmt.Fprintf(cn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
					}
				})
				r := &Request{
					Method: "POST", Target: "/", Fields: fields("Expect", "100-continue"), Length: 3,
					Body: io.NopCloser(strings.NewReader("abc")),
				}
				status, body, err := do(s.pool(0), r)
				if got := strings.TrimSpace(fmt.Sprint(status, body)); err != nil || strings.ReplaceAll(got, " ", "") != c.want {
					t.Errorf("%q, %v", got, err)
				}
				if got := <-bodies; (got == "abc") != c.sent {
					t.Errorf("the backend read %q", got)
				}
			})
		})
	}
}

// TestEarlyAnswer: an answer that comes before the end of the body is passed on. The connection is then closed,
// because the backend would read the rest of the body as a request.
func TestEarlyAnswer(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, hello)
			_, _ = io.Copy(io.Discard, br)
		}
	})
	p := s.pool(0)
	pr, pw := io.Pipe()
	if _, body, err := do(p, &Request{Method: "POST", Target: "/", Length: -1, Body: pr}); err != nil || body != "hello" {
		t.Fatalf("%q, %v", body, err)
	}
	for { // until the rest of the body has been sent
		if _, err := pw.Write([]byte("more")); err != nil {
			break
		}
	}
	if p.waits() {
		t.Error("the connection is kept")
	}
}

// TestBrokenUpload: if the client doesn't send the whole body, the backend sees that the body ends, and its
// answer is read.
func TestBrokenUpload(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		q, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		b, err := io.ReadAll(q.Body)
		_, _ = fmt.Fprintf(c, "HTTP/1.1 400 Bad\r\n\r\n%s, %v", b, err)
	})
	r := &Request{Method: "POST", Target: "/", Length: 9, Body: io.NopCloser(strings.NewReader("abc"))}
	if status, body, err := do(s.pool(0), r); err != nil || status != 400 || body != "abc, unexpected EOF" {
		t.Errorf("%d %q, %v", status, body, err)
	}
}
