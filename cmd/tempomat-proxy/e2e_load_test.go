package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// underLoad has clients request a page without a pause, and calls do after each hundred requests. No request may fail.
// Every fourth client opens a new connection for each request, and the others keep one. A quarter of the clients speak
// HTTP/2. They use TLS unless secure is nil.
func underLoad(t *testing.T, secure *tls.Config, url string, steps int, do func(i int)) {
	t.Helper()
	const clients = 8
	var asked, failed atomic.Int64
	done := make(chan struct{})
	var all sync.WaitGroup
	end := sync.OnceFunc(func() { close(done); all.Wait() })
	defer end()
	for i := range clients {
		all.Go(func() {
			c := asker(i, secure)
			defer c.CloseIdleConnections()
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := asks(c, url); err != nil {
					failed.Add(1)
					t.Log(err)
				}
				asked.Add(1)
			}
		})
	}
	until := func(n int64) { testkit.Eventually(t, "they have asked", func() bool { return asked.Load() >= n }) }
	for i := range steps {
		until(int64(100 * (i + 1)))
		do(i)
	}
	until(asked.Load() + 100)
	end()
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", failed.Load(), asked.Load())
	}
}

// asker is the ith client of a load.
func asker(i int, secure *tls.Config) *http.Client {
	transport := &http.Transport{DisableKeepAlives: i%4 == 3, TLSClientConfig: secure.Clone()}
	switch {
	case i%4 == 2 && secure == nil:
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	case i%4 == 2:
		transport.ForceAttemptHTTP2 = true
	case i%8 == 3 && secure != nil: // the other clients don't resume sessions
		transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return &http.Client{Transport: transport, Timeout: 2 * testkit.Patience}
}

// asks sends one request. The error describes what is wrong with the answer.
func asks(c *http.Client, url string) error {
	res, err := c.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 || string(body) != "page" {
		return fmt.Errorf("%s %s: %w", res.Status, body, err)
	}
	return nil
}

// startBackend starts a backend with a handler, and returns its URL.
func startBackend(t *testing.T, h http.HandlerFunc) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// pageBackend answers all requests with a page, vouches for clients that log in, and reports that expensive pages cost
// two CPU-seconds.
func pageBackend(t *testing.T) (url string) {
	t.Helper()
	url, _, _ = slowBackend(t)
	return url
}

// slowBackend is a pageBackend whose page /slow waits until release. slow receives a value for each such request.
func slowBackend(t *testing.T) (url string, slow <-chan struct{}, release func()) {
	t.Helper()
	came, gate := make(chan struct{}, 16), make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	url = startBackend(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			came <- struct{}{}
			<-gate
		case "/login":
			w.Header().Set("Tempomat-Standing", "yes")
		case "/dear":
			time.Sleep(50 * time.Millisecond) // long enough that a hundred CPUs could have used the reported time
			w.Header().Set("Tempomat-Cost", "2")
		}
		_, _ = io.WriteString(w, "page")
	})
	t.Cleanup(release)
	return url, came, release
}
