package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
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

// TestEncodings: the proxy neither asks for compression nor undoes it.
func TestEncodings(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, "")
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			c := p.client(t)
			const packed = "/headers.php?set=Content-Encoding:gzip"
			res := fetch(t, c, http.MethodGet, s.url+packed, http.Header{"Accept-Encoding": {"gzip, br;q=0.5"}}, nil)
			if res.Header.Get("Content-Encoding") != "gzip" {
				t.Errorf("Content-Encoding: %q", res.Header["Content-Encoding"])
			}
			// The page is not packed for all it says: had anybody unpacked it, it would
			// not be readable.
			if got := parseArrived(t, res.body); got.Headers["Accept-Encoding"] != "gzip, br;q=0.5" {
				t.Errorf("Accept-Encoding arrived as %q", got.Headers["Accept-Encoding"])
			}
			plain := parseArrived(t, fetch(t, c, http.MethodGet, s.url+"/headers.php", nil, nil).body)
			if v, ok := plain.Headers["Accept-Encoding"]; ok {
				t.Errorf("the proxy asked for %q on its own", v)
			}
		})
	}
}

// TestHopByHop: what is between two neighbours does not go further.
func TestHopByHop(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, "")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /headers.php?set=Keep-Alive:timeout%3D99 HTTP/1.1\r\nHost: a\r\nConnection: X-Hop, close\r\n"+
		"X-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authorization: Basic x\r\nTE: trailers, deflate\r\nX-Stays: 1\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	got := parseArrived(t, string(body))
	for _, name := range []string{"X-Hop", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization"} {
		if v, ok := got.Headers[name]; ok {
			t.Errorf("%s: %s arrived", name, v)
		}
	}
	if got.Headers["X-Stays"] != "1" {
		t.Errorf("X-Stays did not arrive: %v", got.Headers)
	}
	if v := res.Header.Get("Keep-Alive"); v != "" {
		t.Errorf("the client got Keep-Alive: %s", v)
	}
}
