package proxy

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tempomat/proxy/telemetry"
)

// TestBackendTLS: nobody issues a certificate for a loopback address, and by its name a
// backend has to have one that somebody signed whom the system knows.
func TestBackendTLS(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	u, err := url.Parse(server.URL) // https://127.0.0.1:port
	if err != nil {
		t.Fatal(err)
	}
	c, err := dialer(Backend{URL: u, DialTimeout: 10 * time.Second})(t.Context())
	if err != nil {
		t.Fatalf("on the loopback: %v", err)
	}
	c.Close()
	u.Host = "localhost:" + u.Port()
	if c, err := dialer(Backend{URL: u, DialTimeout: 10 * time.Second})(t.Context()); err == nil {
		c.Close()
		t.Error("by name, with a certificate that nobody knows")
	} else if !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
}

// TestBackendTLSThatHangs: a backend that takes a connection and does not shake hands is not
// connected to. It is down, and not slow: nothing of a request has come there.
func TestBackendTLSThatHangs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes it
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := start(t, nil, func(s *setup) {
		s.backend = Backend{
			URL: &url.URL{Scheme: "https", Host: l.Addr().String()}, DialTimeout: 50 * time.Millisecond, Timeout: time.Minute,
		}
	})
	if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d", res.StatusCode)
	}
	if line := r.line(); line["outcome"] != telemetry.BackendDown.String() {
		t.Errorf("line %v", line)
	}
}
