package proxy

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestForwarded sends headers that say where a request came from, as a client
// and as a trusted proxy would.
func TestForwarded(t *testing.T) {
	spoofed := []string{
		"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10, 10.0.0.1",
		"X-Forwarded-Host: other.example", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.9;proto=https",
		"X-Real-IP: 203.0.113.9", "X-Original-URL: /admin", "X-Forwarded-Port: 443", "CF-Visitor: {\"scheme\":\"https\"}",
		"Forwarded-For: 203.0.113.9", "Forwarded-For-IP: 203.0.113.9", "DO-Connecting-IP: 203.0.113.9", "Fly-Client-IP: 203.0.113.9",
		"CloudFront-Viewer-Address: 203.0.113.9:1", "X_Real_IP: 203.0.113.9", "X_Forwarded_For: 203.0.113.9", "Proxy: http://203.0.113.9",
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
			"Forwarded": {"for=203.0.113.9;proto=https"}, "X-Real-Ip": {"203.0.113.9"}, "X-Original-Url": {"/admin"},
			"X-Forwarded-Port": {"443"}, "Cf-Visitor": {"{\"scheme\":\"https\"}"},
			"Forwarded-For": {"203.0.113.9"}, "Forwarded-For-Ip": {"203.0.113.9"}, "Do-Connecting-Ip": {"203.0.113.9"},
			"Fly-Client-Ip": {"203.0.113.9"}, "Cloudfront-Viewer-Address": {"203.0.113.9:1"},
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

// TestUnderscores: names of more than letters, digits and hyphens get through where that is
// configured, except those that a script would take for something that a proxy says.
func TestUnderscores(t *testing.T) {
	never := []string{
		"Content_Length: 1", "Transfer!Encoding: chunked", "Tempomat.Request: 1", "Tempomat_Cost: 1", "Cf^Connecting|IP: 203.0.113.9",
	}
	for _, c := range "!#$%&'*+.^_`|~" {
		for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto"} {
			never = append(never, strings.ReplaceAll(name, "-", string(c))+": 203.0.113.9",
				strings.Replace(name, "-", string(c), 1)+": 203.0.113.9", strings.ToLower(strings.ReplaceAll(name, "-", string(c)))+": 203.0.113.9")
		}
	}
	own := http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"}}
	for _, passed := range []bool{false, true} {
		r := start(t, echoHeader, func(s *setup) { s.underscores = passed })
		want := own.Clone()
		if passed {
			want["Api_key"], want["Api.key"] = []string{"1"}, []string{"2"}
		}
		for _, c := range []*http.Client{r.client, r.h2c} {
			_, body := r.do(c, request(t, nil, "GET /", append(never, "api_key: 1", "api.key: 2", "User-Agent: ")...))
			got := decodeHeader(t, body)
			delete(got, "Host")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("underscores: %v (-want +got):\n%s", passed, diff)
			}
		}
	}
}

// TestUpgradesThatAreNot: what is not configured is not asked for; the request is
// answered without it.
func TestUpgradesThatAreNot(t *testing.T) {
	p := Policy{Hops: Hops{Upgrades: []string{"websocket"}}}
	for asked, want := range map[string]string{
		"websocket": "websocket", "WebSocket": "WebSocket", "h2c, websocket": "websocket", "websocket/13": "websocket/13",
		"h2c": "", "TLS/1.0, HTTP/1.1": "", "": "", "web socket": "", "websocket/\xff": "", "websocketx": "",
	} {
		if got := p.mayUpgrade(asked); got != want {
			t.Errorf("%q: %q is asked for, want %q", asked, got, want)
		}
	}
}
