package proxy

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestForwarded sends headers that say where a request came from, as a client
// and as a trusted proxy would.
func TestForwarded(t *testing.T) {
	spoofed := []string{
		"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10, 10.0.0.1",
		"X-Forwarded-Host: other.example", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.9;proto=https",
	}
	own := http.Header{
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"},
	}
	for _, tc := range []struct {
		name    string
		trusted bool
		send    []string
		want    http.Header
		client  string
	}{
		{"a client's own are gone", false, spoofed, own, "127.0.0.1"},
		{"a trusted proxy's stay", true, spoofed, http.Header{
			"X-Forwarded-For":  {"203.0.113.9, 203.0.113.10, 10.0.0.1, 127.0.0.1"},
			"X-Forwarded-Host": {"other.example"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {"for=203.0.113.9;proto=https"},
		}, "10.0.0.1"},
		{"a trusted proxy without any", true, nil, own, "127.0.0.1"},
		{"a trusted proxy's list of what it trusts", true, []string{"X-Forwarded-For: 203.0.113.9, 127.0.0.2"}, http.Header{
			"X-Forwarded-For":  {"203.0.113.9, 127.0.0.2, 127.0.0.1"},
			"X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"},
		}, "203.0.113.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, echoHeader, func(s *setup) {
				if tc.trusted {
					s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				}
			})
			for _, c := range []*http.Client{r.client, r.h2c} {
				_, body := r.do(c, request(t, nil, "GET /", append(tc.send, "User-Agent: ")...))
				got := decodeHeader(t, body)
				delete(got, "Host")
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			for _, line := range r.lines() {
				if line["client"] != tc.client {
					t.Errorf("charged to %s, want %s", line["client"], tc.client)
				}
			}
		})
	}
}
