package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestSoundStream: what HTTP/2 lets be said twice is said alike, or refused.
func TestSoundStream(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"plain":                  {func(*http.Request) {}, true},
		"the same host":          {func(q *http.Request) { q.Header["Host"] = []string{"EXAMPLE.com"} }, true},
		"another host":           {func(q *http.Request) { q.Header["Host"] = []string{"b"} }, false},
		"two hosts":              {func(q *http.Request) { q.Header["Host"] = []string{"example.com", "example.com"} }, false},
		"no host":                {func(q *http.Request) { q.Host = "" }, false},
		"an empty name":          {func(q *http.Request) { q.Host = ":80" }, false},
		"a length":               {func(q *http.Request) { q.Header.Set("Content-Length", "3"); q.ContentLength = 3 }, true},
		"another length":         {func(q *http.Request) { q.Header.Set("Content-Length", "3") }, false},
		"a length with a sign":   {func(q *http.Request) { q.Header.Set("Content-Length", "+3"); q.ContentLength = 3 }, false},
		"a length below zero":    {func(q *http.Request) { q.Header.Set("Content-Length", "-1"); q.ContentLength = -1 }, false},
		"no length at all":       {func(q *http.Request) { q.Header.Set("Content-Length", "") }, false},
		"two lengths":            {func(q *http.Request) { q.Header["Content-Length"] = []string{"3", "3"}; q.ContentLength = 3 }, false},
		"a URL":                  {func(q *http.Request) { q.RequestURI = "http://b/" }, false},
		"a star":                 {func(q *http.Request) { q.RequestURI = "*" }, false},
		"a star for OPTIONS":     {func(q *http.Request) { q.RequestURI, q.Method = "*", "OPTIONS" }, true},
		"a path for OPTIONS":     {func(q *http.Request) { q.Method = "OPTIONS" }, true},
		"a URL for OPTIONS":      {func(q *http.Request) { q.RequestURI, q.Method = "http://b/", "OPTIONS" }, false},
		"an authority":           {func(q *http.Request) { q.RequestURI, q.Method = "b:443", "CONNECT" }, true},
		"an authority for a GET": {func(q *http.Request) { q.RequestURI = "b:443" }, false},
	} {
		q := httptest.NewRequest(http.MethodGet, "/a", nil)
		q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/2.0", 2, 0
		tc.change(q)
		if got := isSound(q); got != tc.want {
			t.Errorf("%s: sound %t", name, got)
		}
	}
}

// TestTarget is what the backend is asked for where a client names a whole URL.
func TestTarget(t *testing.T) {
	for sent, want := range map[string]string{
		"GET /a%2Fb/%7e\"x?y": "/a%2Fb/%7e\"x?y", "GET http://h/a%2Fb/%7e\"x?y": "/a%2Fb/%7e\"x?y", "GET HTTPS://h": "/", "GET http://h?a": "/?a",
		"OPTIONS *": "*", "OPTIONS http://h": "*", "OPTIONS http://h/": "/", "GET http://h/http://i/j": "/http://i/j",
	} {
		method, uri, _ := strings.Cut(sent, " ")
		if got := target(&http.Request{Method: method, RequestURI: uri}); got != want {
			t.Errorf("%s: %q", sent, got)
		}
	}
}
