package proxy

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// heldFor makes cooperative mode hold the sleeper's first answer for 9 s.
func heldFor(s *setup) {
	s.limits.Mode = limiter.Cooperative
	s.limits.Classes[0].Budget.CPUs = 0.1
	s.source = cpuaccount.Wall
}

const hold = 9 * time.Second // of 1 CPU-s at 0.1 CPU-s/s, less what was earned in the second

// near tells whether d is what is wanted but for the guess and rounding.
func near(d, want time.Duration) bool { return (d - want).Abs() < 10*time.Millisecond }

// TestHold looks at what of a held response comes when.
func TestHold(t *testing.T) {
	const large = 1 << 20
	for _, tc := range []struct {
		name, path string
		size       int
		header     time.Duration // when the header comes
		early      int           // least bytes that come before the hold
	}{
		{"small", "/length/1000", 1000, time.Second + hold, 0},
		{"empty", "/length/0", 0, time.Second + hold, 0},
		{"large", "/length/" + strconv.Itoa(large), large, time.Second, large - tailSize - 32<<10},
		{"chunked", "/chunked/1000", 1000, time.Second, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					time.Sleep(time.Second)
					text, _ := strings.CutPrefix(q.URL.Path, "/length/")
					if text != q.URL.Path {
						w.Header().Set("Content-Length", text)
					} else {
						text = q.URL.Path[len("/chunked/"):]
						_ = http.NewResponseController(w).Flush()
					}
					n, _ := strconv.Atoi(text)
					_, _ = io.WriteString(w, strings.Repeat("x", n))
				}), heldFor)
				for _, c := range []*http.Client{r.client, r.h2c} {
					checkHold(t, c, tc.path, tc.header, tc.early, tc.size)
					time.Sleep(2 * time.Minute) // the debt is paid
				}
				for _, line := range r.lines() {
					if wait := time.Duration(line["wait_ms"].(float64) * 1e6); !near(wait, hold) {
						t.Errorf("the log says that it waited %s", wait)
					}
				}
			})
		})
	}
}

func checkHold(t *testing.T, c *http.Client, path string, header time.Duration, early, size int) {
	t.Helper()
	from := time.Now()
	res, err := c.Do(request(t, nil, "GET "+path))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if took := time.Since(from); !near(took, header) {
		t.Errorf("the header came after %s, want %s", took, header)
	}
	got := 0
	buf := make([]byte, 1<<15)
	for {
		n, err := res.Body.Read(buf)
		got += n
		if took := time.Since(from); n > 0 && near(took, time.Second+hold) && got-n < early {
			t.Errorf("only %d bytes came before the hold, want %d", got-n, early)
			early = 0
		}
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(from); got != size || !near(took, time.Second+hold) {
		t.Errorf("%d bytes after %s, want %d after %s", got, took, size, time.Second+hold)
	}
}

// TestHeldClientLeaves checks that a held response frees its place.
func TestHeldClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, heldFor)
		for _, c := range []*http.Client{r.client, r.h2c} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			if res, err := c.Do(request(t, nil, "GET /").WithContext(ctx)); err == nil {
				t.Errorf("got %d, want it held", res.StatusCode)
			}
			cancel()
			time.Sleep(tick) // it is looked so often
			synctest.Wait()
			if n := r.limiter.Held(); n != 0 {
				t.Errorf("%d are held for nobody", n)
			}
			time.Sleep(2 * time.Minute)
		}
		for _, line := range r.lines() {
			if wait := line["wait_ms"].(float64); line["outcome"] != "client gone" || wait < 1000 || wait > 1100 {
				t.Errorf("access log: %v", line)
			}
		}
	})
}

// TestWaitingClientLeaves checks that a waiting request leaves its queue, and is
// not charged.
func TestWaitingClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			asked++
			sleeper(w, q)
		}), heldFor, mode(limiter.Cap))
		r.do(r.client, request(t, nil, "GET /"))
		before := r.row().Level
		for i, c := range []struct {
			*http.Client
			body io.Reader
		}{{r.client, nil}, {r.h2c, nil}, {r.client, strings.NewReader("small")}, {r.h2c, strings.NewReader("small")}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if res, err := c.Do(request(t, c.body, "POST /").WithContext(ctx)); err == nil {
				t.Errorf("got %d, want it to wait", res.StatusCode)
			}
			cancel()
			time.Sleep(tick) // it is looked so often
			synctest.Wait()
			if got, want := r.row().Level, before+0.11*float64(i+1); r.limiter.Held() != 0 || math.Abs(got-want) > 1e-6 {
				t.Errorf("%d wait for nobody, the level is %f, want %f", r.limiter.Held(), got, want)
			}
		}
		if asked != 1 {
			t.Errorf("the backend was asked %d times", asked)
		}
	})
}

// TestWaitingUpload checks that the backend gets a body whole that came while
// its request waited, whether it was read ahead or is too large for that.
func TestWaitingUpload(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": smallBody/10*10 + 10} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if q.Method == http.MethodGet {
						time.Sleep(time.Second)
						return
					}
					got, _ := io.ReadAll(q.Body)
					_, _ = w.Write(got)
				}), heldFor, mode(limiter.Cap))
				r.do(r.client, request(t, nil, "GET /"))
				sent := strings.Repeat("0123456789", size/10)
				from := time.Now()
				if _, got := r.do(r.client, request(t, strings.NewReader(sent), "POST /")); got != sent || time.Since(from) == 0 {
					t.Errorf("%d bytes came back after %v, want %d after a wait", len(got), time.Since(from), len(sent))
				}
			})
		})
	}
}

// TestNoHoldAfterAnUpgrade checks that an upgraded connection that is
// over takes no place in the waiting room.
func TestNoHoldAfterAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			time.Sleep(time.Second)
			shout(w, q)
		}), heldFor)
		from := time.Now()
		c, br := converse(t, r)
		send(t, c, "bye\n")
		_, _ = io.ReadAll(br)
		_ = c.Close()
		r.busy.Wait()
		if took := time.Since(from); took != time.Second {
			t.Errorf("it was over after %s", took)
		}
		if cost := r.line()["cost_ms"]; cost != 1000.0 {
			t.Errorf("cost %v", cost)
		}
	})
}

// TestHalfClosedWhileHeld checks that closing the sending side is no way to get
// the rest of a response early.
func TestHalfClosedWhileHeld(t *testing.T) {
	done := make(chan struct{})
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, strings.Repeat("x", 100000))
		<-done
	}), mode(limiter.Cooperative), func(s *setup) { s.limits.Classes[0].Budget.CPUs, s.limits.Memory = 1e-6, 1000*time.Hour })
	c := r.dial()
	send(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	br := bufio.NewReader(c)
	res := answer(t, br, "GET")
	if _, err := io.ReadFull(res.Body, make([]byte, 50000)); err != nil {
		t.Fatal(err)
	}
	close(done)
	for r.limiter.Held() == 0 {
		time.Sleep(time.Millisecond) // until it is held
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("got the whole response, %d bytes at the end", len(rest))
	}
}

// TestHintsToWhoHasGone has clients of HTTP/2 take back what they asked for while they are told
// what comes before the answer: package net/http may write that still. The race detector tells
// whether it is changed meanwhile.
func TestHintsToWhoHasGone(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		for range 90 {
			w.WriteHeader(http.StatusEarlyHints)
		}
	}))
	for n := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		hints := 0
		trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
			if hints++; hints > n {
				cancel()
			}
			return nil
		}}
		res, err := r.h2c.Do(request(t, nil, "GET /").WithContext(httptrace.WithClientTrace(ctx, trace)))
		if err == nil {
			_ = res.Body.Close()
		}
		cancel()
	}
}
