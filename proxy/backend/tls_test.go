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

// serveTLS is serve, and pool, of a backend that speaks TLS.
func serveTLS(t *testing.T, scripts ...func(net.Conn, *bufio.Reader)) (*server, *Pool) {
	known := httptest.NewTLSServer(nil) // has a certificate
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

func TestTLSServesTheNextRequest(t *testing.T) {
	s, p := serveTLS(t, answers(hello))
	for range 3 {
		if _, body, err := do(p, get()); err != nil || body != "hello" {
			t.Errorf("%q, %v", body, err)
		}
	}
	if n := s.accepted(); n != 1 {
		t.Errorf("%d connections for three requests", n)
	}
}

// TestTLSThatIsClosedIsNotUsed: a POST can not be repeated.
func TestTLSThatIsClosedIsNotUsed(t *testing.T) {
	_, p := serveTLS(t, once(hello, nil), answers(hello))
	if _, _, err := do(p, get()); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); p.aliveOnes() > 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("nobody sees that it is closed")
		}
	}
	if _, _, err := do(p, &Request{Method: "POST", Target: "/"}); err != nil {
		t.Error(err)
	}
}

// TestTLSWithSomethingLeftIsNotUsed: what comes after a long answer in the record of its
// end lies in the connection, and would be the answer to the next request.
func TestTLSWithSomethingLeftIsNotUsed(t *testing.T) {
	long := strings.Repeat("x", 40000)
	_, p := serveTLS(t, answers(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long)+hello))
	for range 3 {
		if _, body, err := do(p, get()); err != nil || body != long {
			t.Errorf("%.10q, %v", body, err)
		}
	}
}
