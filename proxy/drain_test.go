package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// TestDrain has one request at the backend and one that is held, and a limit
// that is long enough for both, or for neither.
func TestDrain(t *testing.T) {
	for _, tc := range []struct {
		limit time.Duration
		ok    bool
	}{{time.Minute, true}, {2500 * time.Millisecond, false}} {
		for _, m := range []limiter.Mode{limiter.Cap, limiter.Cooperative} {
			t.Run(fmt.Sprint(m, " ", tc.limit), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
						if q.URL.Path == "/slow" {
							time.Sleep(4 * time.Second)
						} else {
							time.Sleep(time.Second)
						}
					}), heldFor, mode(m))
					results := make(chan error, 3)
					ask := func(c *http.Client, path string) {
						res, err := c.Do(request(t, nil, "GET "+path))
						if err == nil {
							_ = res.Body.Close()
						}
						results <- err
					}
					go ask(r.client, "/")
					time.Sleep(100 * time.Millisecond)
					go ask(r.h2c, "/") // waits, or is held behind the first
					go ask(newClient(r.front.from("192.0.2.2"), false), "/slow")
					time.Sleep(1200 * time.Millisecond)
					if r.limiter.Held() == 0 || r.meter.Running() != 1 {
						t.Errorf("%d held, %d running", r.limiter.Held(), r.meter.Running())
					}

					ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
					defer cancel()
					drained := make(chan error)
					go func() { drained <- r.server.Drain(ctx) }()
					time.Sleep(time.Millisecond)
					if c, err := r.front.dial(t.Context(), "", ""); err == nil {
						_ = c.Close()
						t.Error("a new connection was taken")
					}
					if err := <-drained; (err == nil) != tc.ok || !tc.ok && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Drain: %v", err)
					}
					failed := 0
					for range 3 {
						if err := <-results; err != nil {
							failed++
						}
					}
					if (failed == 0) != tc.ok {
						t.Errorf("%d requests failed", failed)
					}
				})
			})
		}
	}
}

// TestServeFails checks that a listener that fails takes the others down.
func TestServeFails(t *testing.T) {
	s := NewServer(http.NotFoundHandler(), ServerOptions{Log: nopLog()})
	good, bad := loopback(t), loopback(t)
	_ = bad.Close()
	if err := s.Serve(plain(good, bad)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if c, err := good.dial(t.Context(), "", ""); err == nil {
		_ = c.Close()
		t.Error("the good listener is still open")
	}
}

// TestReload replaces the policy while a request runs: that one keeps its own,
// and what it owes is not forgotten.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, heldFor, mode(limiter.Observe))
		old := r.handler.Policy()
		changed := *old
		changed.Limits.Mode = limiter.Cap
		changed.Access = telemetry.AccessOff
		changed.Upstream = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(299) })

		var all sync.WaitGroup
		all.Go(func() {
			if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
				t.Errorf("the running request got %d", res.StatusCode)
			}
		})
		time.Sleep(500 * time.Millisecond)
		r.handler.SetPolicy(&changed)
		all.Wait()
		if level := r.row().Level; math.Abs(level+0.9) > 0.001 {
			t.Errorf("level %f after the reload, want -0.9", level)
		}
		from := time.Now()
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 299 {
			t.Errorf("the next request got %d, want the new backend's answer", res.StatusCode)
		}
		if took := time.Since(from); !near(took, hold) {
			t.Errorf("the next request waited %s for the debt, want %s", took, hold)
		}
		if n := len(r.lines()); n != 1 {
			t.Errorf("%d access log lines, want only that of the old policy", n)
		}
	})
}

// TestReloadsUnderLoad swaps policies as fast as it can while clients ask.
func TestReloadsUnderLoad(t *testing.T) {
	r := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
	p := [2]Policy{*r.handler.Policy(), *r.handler.Policy()}
	p[1].Limits.Mode = limiter.Cooperative
	var all sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				res, err := r.client.Do(request(t, nil, "GET /"))
				if err != nil || res.StatusCode != 200 {
					t.Errorf("got %v, %v", res, err)
					return
				}
				_ = res.Body.Close()
			}
		})
	}
	for i := range 1000 {
		r.handler.SetPolicy(&p[i%2])
	}
	close(done)
	all.Wait()
}

// TestRetire: no further connection is taken, and those that are open are served until
// the drain has lingered.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		open, err := r.front.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer open.Close()
		synctest.Wait() // it is accepted
		r.server.Retire(time.Minute)
		if c, err := r.front.dial(t.Context(), "", ""); err == nil {
			_ = c.Close()
			t.Error("a new connection was taken")
		}
		drained := make(chan error)
		go func() { drained <- r.server.Drain(t.Context()) }()
		time.Sleep(59 * time.Second)
		if _, err := io.WriteString(open, "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(open); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK\r\n") {
			t.Errorf("%q, %v", answer, err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// TestUpgradesEndWithTheServer: a connection that was upgraded may be open for days; the server's
// end closes it, and does not wait.
func TestUpgradesEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			c, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x02hi")
			_, _ = io.Copy(io.Discard, rw) // it goes on until the client ends
		}))
		c := r.dial()
		br := bufio.NewReader(c)
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if res := answer(t, br, "GET"); res.StatusCode != 101 {
			t.Fatalf("got %d", res.StatusCode)
		}
		got := make([]byte, len("\x81\x02hi"))
		if _, err := io.ReadFull(br, got); err != nil { // or the end may come before it
			t.Error(err)
		}
		from := time.Now()
		if err := r.server.Drain(t.Context()); err != nil || time.Since(from) > time.Second {
			t.Errorf("Drain: %v after %s", err, time.Since(from))
		}
		if _, err := br.ReadByte(); err == nil {
			t.Error("it goes on")
		}
	})
}
