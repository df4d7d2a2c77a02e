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
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// awaitOrphans waits until the backend works on n requests whose clients have disconnected.
func (r *rig) awaitOrphans(n int) {
	r.t.Helper()
	testkit.Eventually(r.t, fmt.Sprintf("there are %d orphans", n), func() bool {
		orphans := 0
		r.handler.running.Each(func(x *exchange) {
			if x.life.IsOrphan() {
				orphans++
			}
		})
		return orphans == n
	})
}

// leaves sends a request and disconnects after a time, whatever has arrived by then.
func leaves(t *testing.T, c *http.Client, q *http.Request, after time.Duration) {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), after)
	defer leave()
	if res, err := c.Do(q.WithContext(ctx)); err == nil {
		_, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
}

// work3s finishes its answer after 3 s: /header begins only then, /body begins at once, and /part sends
// slightly less than the proxy reads of an abandoned answer.
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
		_, _ = io.WriteString(w, strings.Repeat("x", mostAbandoned-100))
	}
	_, _ = io.WriteString(w, "later")
}

// TestOrphans: clients disconnect before the header or within the body. The request keeps its place until
// the backend has finished, is charged completely, and teaches the next guess. The backend's connection is
// reused.
func TestOrphans(t *testing.T) {
	for _, change := range []func(*setup){func(*setup) {}, unbuffered} {
		for _, path := range []string{"/header", "/body", "/length", "/part"} {
			for _, h2 := range []bool{false, true} {
				inBubble(t, fmt.Sprint(path, " h2 ", h2), func(t *testing.T) {
					dialled := 0
					back := memory()
					dial := back.dial
					back.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						dialled++
						return dial(ctx, network, address)
					}
					r := startOn(t, memory(), back, http.HandlerFunc(work3s), fairly, change)
					for range 4 {
						begin := time.Now()
						leaves(t, r.by(h2), request(t, nil, "GET "+path), 200*time.Millisecond)
						time.Sleep(time.Until(begin.Add(2900 * time.Millisecond)))
						if g := r.limiter.GateState(); g.Busy != 1 || g.Orphans != 1 {
							t.Errorf("after 2.9 s of 3 s: %d at the gate, %d orphans, want 1 of 1", g.Busy, g.Orphans)
						}
						time.Sleep(time.Until(begin.Add(3100 * time.Millisecond)))
						testkit.Same(t, 0, r.limiter.GateState().Busy, "after 3.1 s: at the gate")
					}
					testkit.Same(t, 1, dialled, "connections to the backend")
					kind := cpuaccount.Kind{Shape: path, URL: path, Client: "192.0.2.1"}
					if guess, _, sure := r.handler.gate.Guess.Of(time.Now(), kind); !sure || guess < 3*time.Second {
						t.Errorf("the guess is %s, sure %t", guess, sure)
					}
					r.checkLog(map[string]any{"outcome": "client gone", "cost_ms": 3000.0})
					testkit.Same(t, 0, r.errors.Len(), "log lines: %v", r.errors.All())
				})
			}
		}
	}
}

// hung is a spool whose disk hangs.
type hung chan struct{}

func (h hung) Close() { <-h }

// TestForgetsWithoutTheDisk: the disk hangs when the client of a spooled answer disconnects. Drive, which notices this,
// doesn't wait for the disk.
func TestForgetsWithoutTheDisk(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		disk := make(hung)
		w := work{answer: disk}
		w.forget() // a wait would be a deadlock
		close(disk)
	})
}

// TestOrphanWithoutEnd: if the backend never finishes, or finishes too late, its connection is closed, and the
// backend notices.
func TestOrphanWithoutEnd(t *testing.T) {
	for path, tc := range map[string]struct {
		told    time.Duration // least time until the backend notices
		outcome string
	}{
		"/header": {time.Minute, "backend slow"},
		"/body":   {time.Minute, "backend slow"},
		"/large":  {3 * time.Second, "client gone"},
		"/events": {3 * time.Second, "client gone"},
	} {
		inBubble(t, path, func(t *testing.T) {
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
				testkit.Same(t, 0, r.limiter.GateState().Busy, "places taken in the end")
			}
			for _, line := range r.lines() {
				if line["outcome"] != tc.outcome || line["cost_ms"].(float64) < line["guess_ms"].(float64)-1 {
					t.Errorf("access log: %v", line)
				}
			}
		})
	}
}

// TestSlowBackendKeepsItsPlace: a request that the backend did not answer in time keeps its place for a while
// longer, although its client has got a 504. When Drive ends, no request is left.
func TestSlowBackendKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }),
			fairly, func(s *setup) { s.backend.Timeout = 4 * time.Second })
		for i := range 2 {
			res, _ := r.do(r.client, request(t, nil, "GET /"))
			testkit.Same(t, 504, res.StatusCode, "status")
			if i == 1 {
				break
			}
			time.Sleep(3900 * time.Millisecond)
			testkit.Same(t, 1, r.limiter.GateState().Busy, "3.9 s after 4 s: places taken")
			time.Sleep(300 * time.Millisecond)
			testkit.Same(t, 0, r.limiter.GateState().Busy, "4.2 s after 4 s: places taken")
		}
		r.checkLog(map[string]any{"outcome": "backend slow", "cost_ms": 4000.0})
		testkit.Same(t, 0, r.limiter.GateState().Busy, "places taken after the end")
	})
}

// TestDrainCutsOrphans: a server stops while the backend works for clients that have disconnected, and for one
// that has not. It waits only for that one, and no longer than the limit. The backend's connections for the
// others are closed at once.
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
