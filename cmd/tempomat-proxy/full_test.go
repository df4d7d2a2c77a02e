package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
)

// fullSite is a site with one worker. An expensive page holds the worker for as long as the test wants, and all other
// clients must wait.
type fullSite struct {
	*sidecarProcess
	script string // of its pages

	mu    sync.Mutex // guards the fields below
	asked []string   // requests at the backend: method, target, and the cookies
	dear  chan struct{}
	here  chan struct{} // receives a value when a request for an expensive page has arrived
}

// oneWorker makes all requests, however short, wait behind one page.
const oneWorker = "cpuCount: 1\ncost: {source: wall}\ngate: {heavy: 1, usage: off}\nstate: off\n"

// startFullSite starts the proxy in front of such a site, with further lines of configuration. The worker is free until
// fill is called.
func startFullSite(t *testing.T, yaml string) *fullSite {
	t.Helper()
	f := &fullSite{here: make(chan struct{}, 1)}
	backend := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(backend.Close)
	f.sidecarProcess = startProxyWith(t, []string{"TEMPOMAT_BACKEND_WORKERS=1"}, nil, backend.URL, oneWorker+yaml)
	return f
}

// serve answers with a page whose title is the requested target.
func (f *fullSite) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/dear" {
		f.mu.Lock()
		dear := f.dear
		f.mu.Unlock()
		f.here <- struct{}{}
		<-dear
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.RequestURI, " ", strings.Join(r.Header["Cookie"], "; "))))
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, "<!doctype html><html><head><title>%s</title><link rel=icon href=data:,></head><body>a page<script>%s</script></body></html>\n", r.RequestURI, f.script)
}

// saw returns the requests that reached the backend since the last call of saw, in order.
func (f *fullSite) saw() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	slices.Sort(asked)
	return asked
}

// fill takes the only worker, until empty is called.
func (f *fullSite) fill(t *testing.T) (empty func()) {
	t.Helper()
	dear := make(chan struct{})
	f.mu.Lock()
	f.dear = dear
	f.mu.Unlock()
	answer := f.later(from("192.0.2.99"), "/dear")
	<-f.here
	return sync.OnceFunc(func() {
		close(dear)
		testkit.Same(t, "200 OK", <-answer, "the expensive page")
	})
}

// redirected returns the number of requests redirected since the start.
func (f *fullSite) redirected() uint64 { return f.stats().Counters["redirected"] }

// clicked returns the headers of the request for a user's click, from an address.
func clicked(client string) http.Header {
	h := from(client)
	h.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	h.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	return h
}

// got formats a status and its redirect target.
func got(res *http.Response) string {
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")))
}
