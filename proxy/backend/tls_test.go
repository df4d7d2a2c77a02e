package backend

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serveTLS is serve and pool for a backend with TLS.
func serveTLS(t *testing.T, scripts ...func(net.Conn, *bufio.Reader)) (*server, *Pool) {
	known := httptest.NewTLSServer(nil) // only its certificate is used
	known.Close()
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	secure := make([]func(net.Conn, *bufio.Reader), len(scripts))
	for i, script := range scripts {
		secure[i] = func(c net.Conn, _ *bufio.Reader) {
			s := tls.Server(c, &tls.Config{Certificates: known.TLS.Certificates})
			defer s.Close()
			script(s, bufio.NewReader(s))
		}
	}
	s := serve(t, secure...)
	d := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "example.com"}}
	p := NewPool(func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "tcp", s.l.Addr().String()) }, "nameless", 0)
	p.idleFor = time.Hour // as in pool
	t.Cleanup(p.Close)
	return s, p
}

// TestTLSWithSomethingLeftIsNotUsed: bytes after an answer in the same record stay in the
// connection, and would become the next answer.
func TestTLSWithSomethingLeftIsNotUsed(t *testing.T) {
	long := strings.Repeat("x", 40000)
	_, p := serveTLS(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long)+hello))
	for range 3 {
		if _, body, err := do(p, get()); err != nil || body != long {
			t.Errorf("%.10q, %v", body, err)
		}
	}
}
