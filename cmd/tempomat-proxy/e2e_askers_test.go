package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// askers ask for a page without a pause, each over a connection of its own; every fourth
// over a new one for each request, and as many by HTTP/2.
type askers struct {
	asked, failed atomic.Int64
	again         atomic.Int64 // asked a second time by net/http, as the connection ended before
	done          chan struct{}
	all           sync.WaitGroup
}

func startAskers(t *testing.T, url string, clients int) *askers {
	t.Helper()
	return startAskersOver(t, nil, url, clients)
}

// startAskersOver has them ask over TLS, unless that is nil.
func startAskersOver(t *testing.T, secure *tls.Config, url string, clients int) *askers {
	t.Helper()
	a := &askers{done: make(chan struct{})}
	for i := range clients {
		a.all.Go(func() {
			transport := &http.Transport{DisableKeepAlives: i%4 == 3, TLSClientConfig: secure.Clone()}
			switch {
			case i%4 == 2 && secure == nil:
				transport.Protocols = new(http.Protocols)
				transport.Protocols.SetUnencryptedHTTP2(true)
			case i%4 == 2:
				transport.ForceAttemptHTTP2 = true
			case i%8 == 3 && secure != nil: // the other ones do not resume
				transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
			}
			defer transport.CloseIdleConnections()
			c := &http.Client{Transport: transport, Timeout: 2 * testkit.Patience}
			for {
				select {
				case <-a.done:
					return
				default:
				}
				if problem := a.ask(t, c, url); problem != "" {
					a.failed.Add(1)
					t.Log(problem)
				}
				a.asked.Add(1)
			}
		})
	}
	t.Cleanup(a.end)
	return a
}

// ask asks once and says what is wrong with the answer.
func (a *askers) ask(t *testing.T, c *http.Client, url string) string {
	tries := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { tries++ }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	res, err := c.Do(req)
	if tries > 1 {
		a.again.Add(1)
	}
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || string(body) != "page" {
		return fmt.Sprint(res.Status, " ", string(body), " ", err)
	}
	return ""
}

// until waits for that many requests.
func (a *askers) until(n int64) {
	for a.asked.Load() < n {
		time.Sleep(time.Millisecond)
	}
}

func (a *askers) end() {
	select {
	case <-a.done:
	default:
		close(a.done)
	}
	a.all.Wait()
}

// pageBackend answers everything with a page, says of those who log in that they are
// persons, and of what is dear that it cost two CPU-seconds. What is asked for under
// /slow waits until release.
func pageBackend(t *testing.T) (url string, slow <-chan struct{}, release func()) {
	t.Helper()
	came, gate := make(chan struct{}, 16), make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			came <- struct{}{}
			<-gate
		case "/login":
			w.Header().Set("Tempomat-Standing", "yes")
		case "/dear":
			time.Sleep(50 * time.Millisecond) // in which a hundred CPUs can do as much
			w.Header().Set("Tempomat-Cost", "2")
		}
		_, _ = io.WriteString(w, "page")
	}))
	t.Cleanup(backend.Close)
	t.Cleanup(release)
	return backend.URL, came, release
}
