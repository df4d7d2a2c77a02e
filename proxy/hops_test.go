package proxy

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestMaxForwards: TRACE and OPTIONS end at the proxy that they ask after, and are one
// less to the next one. Other methods know nothing of it.
func TestMaxForwards(t *testing.T) {
	r := start(t, echoHeader)
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, tc := range []struct {
			method, told string
			status       int
			want         string // what the backend is told
		}{
			{"OPTIONS", "0", 204, ""}, {"TRACE", "0", 405, ""},
			{"OPTIONS", "3", 200, "2"}, {"TRACE", "1", 200, "0"}, {"GET", "0", 200, "0"}, {"POST", "7", 200, "7"}, {"OPTIONS", "x", 200, "x"},
		} {
			res, body := r.do(c, request(t, nil, tc.method+" /", "Max-Forwards: "+tc.told))
			if res.StatusCode != tc.status {
				t.Errorf("%s, %s: got %d", tc.method, tc.told, res.StatusCode)
			}
			if res.StatusCode != 200 {
				continue
			}
			if got := decodeHeader(t, body).Get("Max-Forwards"); got != tc.want {
				t.Errorf("%s, %s: the backend is told %q, want %q", tc.method, tc.told, got, tc.want)
			}
		}
	})
}

// TestVia: a proxy that has a name adds it both ways, behind those that were before it.
func TestVia(t *testing.T) {
	for _, name := range []string{"", "cache-1"} {
		r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Via", "1.0 origin")
			echoHeader(w, q)
		}))
		p := *r.handler.Policy()
		p.Via = name
		r.handler.SetPolicy(&p)
		for version, c := range map[string]*http.Client{"1.1": r.client, "2.0": r.h2c} {
			res, body := r.do(c, request(t, nil, "GET /", "Via: 1.1 first"))
			there, back := []string{"1.1 first"}, []string{"1.0 origin"}
			if name != "" {
				there, back = append(there, version+" cache-1"), append(back, "1.1 cache-1")
			}
			if got := decodeHeader(t, body)["Via"]; !slices.Equal(got, there) {
				t.Errorf("HTTP/%s: the backend is told %q, want %q", version, got, there)
			}
			if got := res.Header["Via"]; !slices.Equal(got, back) {
				t.Errorf("HTTP/%s: the client is told %q, want %q", version, got, back)
			}
		}
	}
}

// TestCircle: a proxy whose backend is itself says so, at once and in the log, and where every place is taken.
func TestCircle(t *testing.T) {
	front := loopback(t)
	r := startOn(t, front, loopback(t), nil, fairly, func(s *setup) {
		s.backend.URL = &url.URL{Scheme: "http", Host: front.Addr().String()}
		s.limits.Gate.Workers = 1
	})
	r.each(t, func(t *testing.T, c *http.Client) {
		res, body := r.do(c, request(t, nil, "GET /"))
		checkProblem(t, res, body, http.StatusLoopDetected, false)
	})
	if logged := r.errors.FilterMessageSnippet("came back").All(); len(logged) != 2 || logged[0].ContextMap()["host"] != "site.example" {
		t.Errorf("logged %v", logged)
	}
}

// TestASiteMayAskAnother: where the backend gets a part of one site from another one of the machine, as a proxy,
// that comes by this proxy as well. A circle in which the path grows ends all the same.
func TestASiteMayAskAnother(t *testing.T) {
	var r *rig
	r = start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asks := map[string]string{"/blog": "blog.example /", "/old": q.Host + " /new"}[q.URL.Path]
		if strings.HasPrefix(q.URL.Path, "/more") {
			asks = q.Host + " " + q.URL.Path + "/more"
		}
		host, path, passes := strings.Cut(asks, " ")
		if !passes {
			_, _ = io.WriteString(w, q.Host+q.URL.Path)
			return
		}
		inner := request(t, nil, "GET "+path)
		inner.Header, inner.Host = q.Header.Clone(), host
		res, body := r.do(r.client, inner)
		w.WriteHeader(res.StatusCode)
		_, _ = io.WriteString(w, body)
	}))
	for path, want := range map[string]string{"/blog": "blog.example/", "/old": "site.example/new", "/": "site.example/"} {
		if res, body := r.do(r.client, request(t, nil, "GET "+path)); res.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, res.StatusCode, body)
		}
	}
	if res, _ := r.do(r.client, request(t, nil, "GET /more")); res.StatusCode != http.StatusLoopDetected {
		t.Errorf("a circle in which the path grows: %d", res.StatusCode)
	}
}
