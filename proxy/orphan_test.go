package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// awaitOrphans waits until the backend works for so many clients that have left.
func (r *rig) awaitOrphans(n int) {
	r.t.Helper()
	for {
		orphans := 0
		r.handler.running.Each(func(x *exchange) {
			if x.life.IsOrphan() {
				orphans++
			}
		})
		if orphans == n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// leaves has a client ask and leave after a time, whatever it got until then.
func leaves(t *testing.T, c *http.Client, q *http.Request, after time.Duration) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), after)
	defer leave()
	if res, err := c.Do(q.WithContext(ctx)); err == nil {
		_, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
}

// work3s answers after 3 s: /header begins then, /body has begun before, /part
// sends as much as would be read for nobody and a little less than that.
func work3s(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path == "/body" || q.URL.Path == "/length" {
		if q.URL.Path == "/length" {
			w.Header().Set("Content-Length", "10")
		}
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
	}
	time.Sleep(3 * time.Second)
	if q.URL.Path == "/part" {
		_, _ = io.WriteString(w, strings.Repeat("x", mostForNobody-100))
	}
	_, _ = io.WriteString(w, "later")
}

// TestOrphans has clients leave before the header and in the body. The request
// keeps its place until the backend has finished, all of it is charged, and the
// next guess knows it. The backend's connection is used again.
func TestOrphans(t *testing.T) {
	for _, change := range []func(*setup){func(*setup) {}, unbuffered} {
		for _, path := range []string{"/header", "/body", "/length", "/part"} {
			for _, h2 := range []bool{false, true} {
				t.Run(fmt.Sprint(path, " h2 ", h2), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						dialled := 0
						back := memory()
						dial := back.dial
						back.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
							dialled++
							return dial(ctx, network, address)
						}
						r := startOn(t, memory(), back, http.HandlerFunc(work3s), fairly, change)
						c := map[bool]*http.Client{false: r.client, true: r.h2c}[h2]
						for range 4 {
							begin := time.Now()
							leaves(t, c, request(t, nil, "GET "+path), 200*time.Millisecond)
							time.Sleep(time.Until(begin.Add(2900 * time.Millisecond)))
							if g := r.limiter.GateState(); g.Busy != 1 || g.Orphans != 1 {
								t.Errorf("after 2.9 s of 3 s: %d at the gate, %d orphans, want 1 of 1", g.Busy, g.Orphans)
							}
							time.Sleep(time.Until(begin.Add(3100 * time.Millisecond)))
							if g := r.limiter.GateState(); g.Busy != 0 {
								t.Errorf("after 3.1 s: %d at the gate", g.Busy)
							}
						}
						if dialled != 1 {
							t.Errorf("%d connections to the backend", dialled)
						}
						kind := cpuaccount.Kind{Shape: path, URL: path, Client: "192.0.2.1"}
						if guess, _, sure := r.handler.gate.Guess.Of(time.Now(), kind); !sure || guess < 3*time.Second {
							t.Errorf("the guess is %s, sure %t", guess, sure)
						}
						for _, line := range r.lines() {
							if line["outcome"] != "client gone" || line["cost_ms"] != 3000.0 {
								t.Errorf("access log: %v", line)
							}
						}
						if n := r.errors.Len(); n != 0 {
							t.Errorf("%d log lines: %v", n, r.errors.All())
						}
					})
				})
			}
		}
	}
}

// TestOrphanWithoutEnd has a backend that never comes to its end, or to too
// late a one: its connection is closed, and it notices.
func TestOrphanWithoutEnd(t *testing.T) {
	for path, tc := range map[string]struct {
		told    time.Duration // after which the backend notices, at least
		outcome string
	}{
		"/header": {time.Minute, "backend slow"},
		"/body":   {time.Minute, "backend slow"},
		"/large":  {3 * time.Second, "client gone"},
		"/events": {3 * time.Second, "client gone"},
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := make(chan time.Time, 1)
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					defer func() { told <- time.Now() }()
					switch path {
					case "/body":
						_, _ = io.WriteString(w, "first")
						_ = http.NewResponseController(w).Flush()
					case "/events", "/large":
						if path == "/events" {
							w.Header().Set("Content-Type", "text/event-stream")
						}
						_ = http.NewResponseController(w).Flush()
						time.Sleep(3 * time.Second)
						for q.Context().Err() == nil {
							_, _ = io.WriteString(w, "data: x\n\n")
							if err := http.NewResponseController(w).Flush(); err != nil {
								return
							}
						}
					}
					<-q.Context().Done()
				}), fairly)
				for _, c := range []*http.Client{r.client, r.h2c} {
					begin := time.Now()
					leaves(t, c, request(t, nil, "GET "+path), 200*time.Millisecond)
					if took := (<-told).Sub(begin); took < tc.told || took > tc.told+time.Second {
						t.Errorf("the backend noticed after %s, want %s", took, tc.told)
					}
					time.Sleep(mostLinger + time.Second)
					if g := r.limiter.GateState(); g.Busy != 0 {
						t.Errorf("%d places are taken in the end", g.Busy)
					}
				}
				for _, line := range r.lines() {
					if line["outcome"] != tc.outcome || line["cost_ms"].(float64) < line["guess_ms"].(float64)-1 {
						t.Errorf("access log: %v", line)
					}
				}
			})
		})
	}
}

// TestSlowBackendKeepsItsPlace checks that a request that the backend did not
// answer in time keeps its place for a while longer, though its client has its
// 504, and that the end of the Driver leaves nothing.
func TestSlowBackendKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }),
			fairly, func(s *setup) { s.backend.Timeout = 4 * time.Second })
		for i := range 2 {
			res, _ := r.do(r.client, request(t, nil, "GET /"))
			if res.StatusCode != 504 {
				t.Errorf("got %d", res.StatusCode)
			}
			if i == 1 {
				break
			}
			time.Sleep(3900 * time.Millisecond)
			if g := r.limiter.GateState(); g.Busy != 1 {
				t.Errorf("3.9 s after 4 s: %d places are taken, want 1", g.Busy)
			}
			time.Sleep(300 * time.Millisecond)
			if g := r.limiter.GateState(); g.Busy != 0 {
				t.Errorf("4.2 s after 4 s: %d places are taken", g.Busy)
			}
		}
		for _, line := range r.lines() {
			if line["outcome"] != "backend slow" || line["cost_ms"] != 4000.0 {
				t.Errorf("access log: %v", line)
			}
		}
		if g := r.limiter.GateState(); g.Busy != 0 {
			t.Errorf("%d places are taken after the end", g.Busy)
		}
	})
}

// TestDrainCutsOrphans has a server stop while the backend works for clients that
// have left, and for one that has not: only that one is waited for, and no longer
// than the limit. The backend is told of the others at once.
func TestDrainCutsOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan time.Time, 3)
		r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			<-q.Context().Done()
			told <- time.Now()
		}), mode(limiter.Observe))
		for _, c := range []*http.Client{r.client, r.h2c} {
			leaves(t, c, request(t, nil, "GET /"), time.Second)
		}
		go leaves(t, newClient(r.front, false), request(t, nil, "GET /"), time.Minute/2)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		from := time.Now()
		if err := r.server.Drain(ctx); err == nil {
			t.Error("nobody was waited for")
		}
		r.busy.Wait()
		for i := range 3 {
			limit := time.Second
			if i == 2 {
				limit = 6 * time.Second
			}
			if took := (<-told).Sub(from); took > limit || i == 2 && took < 5*time.Second {
				t.Errorf("the backend was told after %s", took)
			}
		}
	})
}
