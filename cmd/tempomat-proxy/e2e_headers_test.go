package main

import (
	"encoding/json"
	"net/http"
	"testing"
)

// arrived is what headers.php says of a request.
type arrived struct {
	Method, URI, Query, Host string
	PathInfo                 string `json:"path_info"`
	Headers                  map[string]string
}

func parseArrived(t *testing.T, body string) (a arrived) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return a
}

// TestWhatArrives compares what a client sends with what PHP sees.
func TestWhatArrives(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	trusting := startProxy(t, backend.url, "")
	strict := startProxy(t, backend.url, "trustedProxies: []\n")
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c := p.client(t)
			ask := func(s *sidecarProcess, path string, h http.Header) arrived {
				t.Helper()
				return parseArrived(t, fetch(t, c, http.MethodGet, s.url+path, h, nil).body)
			}
			for _, path := range []string{
				"/headers.php?a=1;b=2&c=%3B",
				"/headers.php?a=%zz&&=&;;x",
				"/headers.php/a%2Fb/%C3%A4/%7e~?x=a+b%20c",
				"/headers.php/..%2f//x;v=1?q='\"",
			} {
				if got := ask(trusting, path, nil); got.URI != path {
					t.Errorf("%s arrived as %s", path, got.URI)
				}
			}
			got := ask(trusting, "/headers.php", http.Header{"Host": {"www.example.com:81"}, "X-Odd_Name": {"a, b"}})
			if got.Host != "www.example.com:81" || got.Headers["X-Forwarded-Host"] != "www.example.com:81" {
				t.Errorf("Host: %q, X-Forwarded-Host: %q", got.Host, got.Headers["X-Forwarded-Host"])
			}
			if got.Headers["X-Forwarded-Proto"] != "http" {
				t.Errorf("X-Forwarded-Proto: %q", got.Headers["X-Forwarded-Proto"])
			}
			said := http.Header{"X-Forwarded-For": {"203.0.113.9"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"shop.example"}}
			if got = ask(trusting, "/headers.php", said.Clone()); got.Headers["X-Forwarded-For"] != "203.0.113.9, 127.0.0.1" ||
				got.Headers["X-Forwarded-Proto"] != "https" || got.Headers["X-Forwarded-Host"] != "shop.example" {
				t.Errorf("a trusted proxy's word arrived as %v", got.Headers)
			}
			if got = ask(strict, "/headers.php", said.Clone()); got.Headers["X-Forwarded-For"] != "127.0.0.1" ||
				got.Headers["X-Forwarded-Proto"] != "http" || got.Headers["X-Forwarded-Host"] == "shop.example" {
				t.Errorf("a stranger's word arrived as %v", got.Headers)
			}
		})
	}
}
