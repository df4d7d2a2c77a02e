package proxy

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
)

// cost is what the only request of the access log was charged, in seconds.
func (r *rig) cost() float64 {
	r.t.Helper()
	return r.line()["cost_ms"].(float64) / 1e3
}

// TestSlowClients are charged for the backend's time and not for their own.
func TestSlowClients(t *testing.T) {
	const size = 1 << 20
	backend := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		time.Sleep(2 * time.Second)
		// With a length: what waits for a lock holds a bubble's clock, and where
		// ReverseProxy flushes it writes under one.
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	})
	for name, ask := range map[string]func(*testing.T, *http.Client){
		"reader": func(t *testing.T, c *http.Client) {
			res, err := c.Do(request(t, nil, "GET /"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got := 0
			for buf := make([]byte, 1<<15); ; time.Sleep(time.Second) {
				n, err := res.Body.Read(buf)
				if got += n; err != nil {
					break
				}
			}
			if got != size {
				t.Errorf("got %d bytes", got)
			}
		},
		"uploader": func(t *testing.T, c *http.Client) {
			pr, pw := io.Pipe()
			go func() {
				for range 30 {
					time.Sleep(time.Second)
					_, _ = io.WriteString(pw, strings.Repeat("x", 1000))
				}
				_ = pw.Close()
			}()
			res, err := c.Do(request(t, pr, "POST /"))
			if err != nil {
				t.Fatal(err)
			}
			_ = readAll(t, res)
		},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := startVirtual(t, backend, func(s *setup) { s.source = cpuaccount.Wall })
					from := time.Now()
					ask(t, map[bool]*http.Client{false: r.client, true: r.h2c}[h2])
					if took := time.Since(from); took < 30*time.Second {
						t.Errorf("it took %s: the client was not slow", took)
					}
					if got := r.cost(); math.Abs(got-2) > 0.01 {
						t.Errorf("charged %.3f s, the backend took 2", got)
					}
				})
			})
		}
	}
}

// TestCostHeader has the backend tell what a request cost.
func TestCostHeader(t *testing.T) {
	for _, tc := range []struct {
		name   string
		source cpuaccount.Source
		told   []string
		want   float64
	}{
		{"used", cpuaccount.Header, []string{"0.25"}, 0.25},
		{"zero, for a second of one of 16 workers", cpuaccount.Header, []string{"0"}, 1. / 16},
		{"nothing", cpuaccount.Header, nil, 1},
		{"empty", cpuaccount.Header, []string{""}, 1},
		{"garbage", cpuaccount.Header, []string{"a lot"}, 1},
		{"negative", cpuaccount.Header, []string{"-1"}, 1},
		{"NaN", cpuaccount.Header, []string{"NaN"}, 1},
		{"infinite", cpuaccount.Header, []string{"Inf"}, 1},
		{"more than the CPUs can", cpuaccount.Header, []string{"1.01"}, 1},
		{"huge", cpuaccount.Header, []string{"1e300"}, 1},
		{"twice", cpuaccount.Header, []string{"0.25", "0.25"}, 1},
		{"not asked for", cpuaccount.Corrected, []string{"0.25"}, 1},
		{"not asked for", cpuaccount.Wall, []string{"0.25"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if tc.told != nil {
						w.Header()[cpuaccount.CostHeader] = tc.told
					}
					sleeper(w, q)
				}), func(s *setup) { s.source, s.limits.Gate.Workers = tc.source, 16 })
				res, _ := r.do(r.client, request(t, nil, "GET /"))
				if told, ok := res.Header[cpuaccount.CostHeader]; ok {
					t.Errorf("the client is told %q", told)
				}
				if got := r.cost(); math.Abs(got-tc.want) > 1e-6 {
					t.Errorf("charged %f, want %f", got, tc.want)
				}
			})
		})
	}
}

// TestStreamsAreNotMetered checks that events over ten minutes cost as much CPU
// as their header did. The worker that they hold is another account.
func TestStreamsAreNotMetered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Content-Type", "text/event-stream")
			for range 10 {
				_, _ = io.WriteString(w, "data: x\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Minute)
			}
		}), func(s *setup) { s.source = cpuaccount.Wall })
		r.do(r.client, request(t, nil, "GET /"))
		if got := r.cost(); got != 1 {
			t.Errorf("charged %f, want 1", got)
		}
	})
}

// TestProgress checks that a request is charged while it runs.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }),
			func(s *setup) { s.source = cpuaccount.Wall; s.limits.Classes[0].Budget.CPUs = 0.5 })
		go func() {
			time.Sleep(30*time.Second + time.Millisecond)
			if row := r.row(); row.Running != 1 || math.Abs(row.Level+15) > 0.1 {
				t.Errorf("half way through a minute at half a CPU the level is %f with %d running", row.Level, row.Running)
			}
		}()
		r.do(r.client, request(t, nil, "GET /"))
	})
}
