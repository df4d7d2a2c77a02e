package proxy

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
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
