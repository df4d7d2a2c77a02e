package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/spool"
)

// noise returns n bytes without repetitions.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// slowly yields b in pieces, with a pause before each.
type slowly struct {
	b     []byte
	piece int
	pause time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.pause)
	n := copy(p[:min(len(p), s.piece)], s.b)
	s.b = s.b[n:]
	return n, nil
}

// giveBack returns the request's body, with a length or without.
func giveBack(w http.ResponseWriter, q *http.Request) {
	b, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	w.Header().Set("Got", fmt.Sprint(q.ContentLength, q.TransferEncoding))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b)
}

// TestSlowUpload: a slow upload takes no place at the gate and no worker until it is complete, and arrives
// unchanged.
func TestSlowUpload(t *testing.T) {
	for _, size := range []int{1, 100, smallBody, smallBody + 1, 300_000} {
		for _, h2 := range []bool{false, true} {
			inBubble(t, fmt.Sprint(size, " h2 ", h2), func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(giveBack), fairly)
				sent := noise(size)
				q := request(t, &slowly{sent, size/10 + 1, time.Second}, "POST /")
				q.ContentLength = int64(size)
				var res *http.Response
				var got string
				var upload sync.WaitGroup
				upload.Go(func() { res, got = r.do(r.by(h2), q) })
				time.Sleep(900 * time.Millisecond)
				if size > 10 {
					time.Sleep(8 * time.Second)
				}
				if g := r.limiter.GateState(); g.Busy != 0 || g.Queued != 0 || r.meter.Running() != 0 {
					t.Errorf("%d places, %d wait, %d meters run", g.Busy, g.Queued, r.meter.Running())
				}
				upload.Wait()
				if got != string(sent) {
					t.Errorf("%d bytes came back, want %d", len(got), len(sent))
				}
				testkit.Same(t, fmt.Sprint(size, " []"), res.Header.Get("Got"), "the backend got")
				if cost := r.line()["cost_ms"].(float64); cost > 1 {
					t.Errorf("it cost %v ms", cost)
				}
			})
		}
	}
}

// TestSlowUploadsAreCheap: a connection whose upload is read ahead holds one goroutine, not a second one that
// only waits.
func TestSlowUploadsAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const uploads = 50
		r := startVirtual(t, http.HandlerFunc(giveBack), fairly)
		before := runtime.NumGoroutine()
		for range uploads {
			send(t, r.dial(), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10000\r\n\r\nhalf of it")
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n < uploads || n > uploads*3/2 {
			t.Errorf("%d goroutines for %d uploads", n, uploads)
		}
	})
}

// TestBrokenUpload: the limiter never sees the requests of clients that break off or stall while their body is
// read ahead.
func TestBrokenUpload(t *testing.T) {
	for _, length := range []string{"Content-Length: 100", "Content-Length: 100000", "Transfer-Encoding: chunked"} {
		for _, stalls := range []bool{false, true} {
			inBubble(t, fmt.Sprint(length, " ", stalls), func(t *testing.T) {
				asked := 0
				r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
					asked++
					_, _ = io.Copy(io.Discard, q.Body)
				}), fairly, func(s *setup) { s.body = 500 * time.Millisecond })
				c := r.dial()
				send(t, c, "POST / HTTP/1.1\r\nHost: h\r\n"+length+"\r\n\r\n5\r\nhalf")
				synctest.Wait()
				if stalls {
					testkit.Same(t, 408, answer(t, bufio.NewReader(c), "POST").StatusCode, "status")
				}
				_ = c.Close()
				if line := r.line(); line["outcome"] != "client gone" || line["cost_ms"] != 0.0 {
					t.Errorf("access log: %v", line)
				}
				n := 0
				r.limiter.Dump(time.Now(), "", func(limiter.Row) bool { n++; return true })
				if n != 0 || asked != 0 {
					t.Errorf("%d keys are known, the backend was asked %d times", n, asked)
				}
			})
		}
	}
}

// TestLiveUpload sends bodies of unknown length, larger than there is room for, faster and slower than the
// backend reads them. A slow client is not charged for its own time.
func TestLiveUpload(t *testing.T) {
	for _, pause := range []time.Duration{0, 300 * time.Millisecond} {
		for _, h2 := range []bool{false, true} {
			inBubble(t, fmt.Sprint(pause, " h2 ", h2), func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					q.Body = io.NopCloser(&trickle{q.Body})
					giveBack(w, q)
				}), fairly, func(s *setup) { s.buffer.RequestMemory, s.buffer.Request = 16<<10, 40_000 })
				sent := noise(200_000)
				res, got := r.do(r.by(h2), request(t, &slowly{sent, 9000, pause}, "POST /"))
				if got != string(sent) || res.Header.Get("Got") != "-1 [chunked]" {
					t.Errorf("%d bytes came back, want %d; the backend got %q", len(got), len(sent), res.Header.Get("Got"))
				}
				line := r.line()
				testkit.Same(t, any("answered"), line["outcome"], "outcome")
				if cost := line["cost_ms"].(float64); cost < 300 || cost > 600 {
					t.Errorf("it cost %v ms, which the backend took to read; the client took %v ms", cost, line["took_ms"])
				}
			})
		}
	}
}

// trickle reads only a little at a time.
type trickle struct{ io.Reader }

func (s *trickle) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Reader.Read(p[:min(len(p), 5000)])
}

// TestSlowReadersHoldNoPlace: more clients than there are workers read nothing of their answers. The backend
// finishes at once, so other clients are served. In the end all clients have their whole answers, including
// trailers.
func TestSlowReadersHoldNoPlace(t *testing.T) {
	const size = 1 << 20
	sent := noise(size)
	for _, path := range []string{"/length", "/chunked"} {
		for _, m := range []limiter.Mode{limiter.Fair, limiter.Cooperative} {
			inBubble(t, path+" "+m.String(), func(t *testing.T) {
				var served sync.WaitGroup
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					if path == "/length" {
						w.Header().Set("Content-Length", strconv.Itoa(size))
					} else {
						w.Header().Set("Trailer", "Sum")
					}
					_, _ = w.Write(sent)
					w.Header().Set("Sum", "3")
					served.Done()
				}), fairly, mode(m), func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
				var slow []*http.Response
				served.Add(24)
				for i := range 24 {
					res, err := r.by(i%2 == 1).Do(request(t, nil, "GET "+path))
					testkit.Must(t, err)
					slow = append(slow, res)
				}
				served.Wait()
				time.Sleep(time.Second)
				if g := r.limiter.GateState(); g.Busy != 0 || r.meter.Running() != 0 {
					t.Errorf("%d places are taken, %d meters run", g.Busy, r.meter.Running())
				}
				if s := r.store.Stats(); s.Files == 0 || s.Memory > 24*64<<10 {
					t.Errorf("kept: %+v", s)
				}
				for _, res := range slow {
					if got := readAll(t, res); got != string(sent) {
						t.Errorf("%d bytes came, want %d", len(got), size)
					}
					if sum := res.Trailer.Get("Sum"); path == "/chunked" && sum != "3" {
						t.Errorf("the trailer is %q", sum)
					}
				}
				r.checkLog(map[string]any{"outcome": "answered", "bytes": int64(size)})
			})
		}
	}
}

// TestUnbufferedAnswersAreNotKept: an answer that must not be buffered waits for its client at the backend.
func TestUnbufferedAnswersAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Accel-Buffering", "no")
			_, _ = w.Write(noise(1 << 20))
		}), fairly)
		res, err := r.client.Do(request(t, nil, "GET /"))
		testkit.Must(t, err)
		time.Sleep(time.Second)
		if s := r.store.Stats(); s.Spools != 0 || r.limiter.GateState().Busy != 1 {
			t.Errorf("kept: %+v, %d places are taken", s, r.limiter.GateState().Busy)
		}
		readAll(t, res)
	})
}

// TestOnlyTheBackendsTimeIsCharged: the backend computes between two parts of its answer. The first part is
// kept for a client that reads nothing for a while, and there is no room for the second one.
func TestOnlyTheBackendsTimeIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(noise(100_000))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
			_, _ = w.Write(noise(1 << 20))
		}), fairly, func(s *setup) { s.buffer.Response = 200_000 })
		res, err := r.client.Do(request(t, nil, "GET /"))
		testkit.Must(t, err)
		time.Sleep(time.Minute / 2)
		readAll(t, res)
		if cost := r.line()["cost_ms"].(float64); cost < 1000 || cost > 1100 {
			t.Errorf("it cost %v ms, want the second of the backend", cost)
		}
	})
}

// TestHeadersDontPause: the backend computes after early hints, and again after a header, while the client reads neither.
func TestHeadersDontPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			time.Sleep(10 * time.Second)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Second)
		}), fairly)
		c := r.dial()
		send(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		time.Sleep(10 * time.Second)
		br := bufio.NewReader(c)
		testkit.Same(t, http.StatusEarlyHints, answer(t, br, "GET").StatusCode, "status")
		time.Sleep(10 * time.Second)
		readAll(t, answer(t, br, "GET"))
		if cost := r.line()["cost_ms"].(float64); cost < 19_000 {
			t.Errorf("it cost %v ms, want the 20 s of the backend", cost)
		}
	})
}

// TestNoRoom: if no file can be created, bodies stream, no byte is lost, and a client that reads slowly keeps
// its place.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := spool.NewStore(spool.Limits{Directory: filepath.Join(t.TempDir(), "missing"), Memory: 32 << 10, Address: 1})
		r := startVirtual(t, http.HandlerFunc(giveBack), fairly, func(s *setup) {
			s.buffer.Store = store
			s.source = cpuaccount.Corrected
		})
		sent := noise(1 << 20)
		for _, c := range []*http.Client{r.client, r.h2c} {
			for _, body := range []io.Reader{bytes.NewReader(sent), io.MultiReader(bytes.NewReader(sent))} {
				q := request(t, body, "POST /")
				res, err := c.Do(q)
				testkit.Must(t, err)
				time.Sleep(time.Minute / 2)
				if g := r.limiter.GateState(); c == r.client && g.Busy != 1 { // the HTTP/2 client's window has room for the answer
					t.Errorf("%d places are taken by who reads nothing, want 1", g.Busy)
				}
				if got := readAll(t, res); got != string(sent) {
					t.Errorf("%d bytes came back", len(got))
				}
			}
		}
		if s := store.Stats(); s.Errors == 0 {
			t.Errorf("no error was counted: %+v", s)
		}
		for _, line := range r.lines() {
			if line["outcome"] != "answered" || line["cost_ms"].(float64) > 1900 { // half a minute of one of 16 workers
				t.Errorf("access log: %v", line)
			}
		}
	})
}

// TestLeavesTheSpool: clients that disconnect after the backend has finished are charged as usual, and
// nothing of their answers is kept.
func TestLeavesTheSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			w.Header().Set("Content-Length", strconv.Itoa(1<<24))
			_, _ = w.Write(noise(1 << 24))
		}), fairly)
		for _, c := range []*http.Client{r.client, r.h2c} {
			leaves(t, c, request(t, nil, "GET /"), 1500*time.Millisecond)
			res, err := c.Do(request(t, nil, "GET /"))
			testkit.Must(t, err)
			time.Sleep(time.Second)
			_ = res.Body.Close()
		}
		r.checkLog(map[string]any{"cost_ms": 1000.0})
	})
}

// TestLiveTrailers: bodies end with a trailer while the backend reads them, or just when it begins to read.
func TestLiveTrailers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(w, q.Trailer.Get("Sum"))
		}))
		for _, c := range []*http.Client{r.client, r.h2c} {
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					pr, pw := io.Pipe()
					time.AfterFunc(aheadTime+time.Duration(i%3-1)*time.Microsecond, func() { _ = pw.Close() })
					q := request(t, pr, "POST /")
					q.Trailer = http.Header{"Sum": {"s3"}}
					_, got := r.do(c, q)
					testkit.Same(t, "s3", got, "the trailer")
				})
			}
			all.Wait()
		}
	})
}

// TestWhoKeepsUpNeedsNoSpool: a client that reads as fast as the backend sends needs no spool.
func TestWhoKeepsUpNeedsNoSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Files that can't be created are counted.
		store := spool.NewStore(spool.Limits{Directory: filepath.Join(t.TempDir(), "missing"), Address: 1})
		r := startVirtual(t, http.HandlerFunc(giveBack), fairly, func(s *setup) { s.buffer.Store = store; s.buffer.RequestMemory, s.buffer.Request = 0, 0 })
		sent := noise(1 << 20)
		for _, c := range []*http.Client{r.client, r.h2c} {
			if _, got := r.do(c, request(t, bytes.NewReader(sent), "POST /")); got != string(sent) {
				t.Errorf("%d bytes came back", len(got))
			}
		}
		testkit.Same(t, 0, store.Stats().Errors, "errors of the store")
	})
}
