package proxy

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/spool"
)

// noise is n bytes that are different everywhere.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

// slowly gives b in pieces, with a pause before each of them.
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

// giveBack returns what was sent, and tells how: with a length or without.
func giveBack(w http.ResponseWriter, q *http.Request) {
	b, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	w.Header().Set("Got", fmt.Sprint(q.ContentLength, q.TransferEncoding))
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b)
}

// TestSlowUpload checks that a body that is long in coming costs no place at the
// gate and no worker until all of it is there, and arrives as it was sent.
func TestSlowUpload(t *testing.T) {
	for _, size := range []int{1, 100, smallBody, smallBody + 1, 300_000} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprint(size, " h2 ", h2), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := startVirtual(t, http.HandlerFunc(giveBack), fairly)
					sent := noise(size)
					q := request(t, &slowly{sent, size/10 + 1, time.Second}, "POST /")
					q.ContentLength = int64(size)
					type result struct {
						res *http.Response
						got string
					}
					done := make(chan result, 1)
					c := map[bool]*http.Client{false: r.client, true: r.h2c}[h2]
					go func() {
						res, got := r.do(c, q)
						done <- result{res, got}
					}()
					time.Sleep(900 * time.Millisecond)
					if size > 10 {
						time.Sleep(8 * time.Second)
					}
					if g := r.limiter.GateState(); g.Busy != 0 || g.Queued != 0 || r.meter.Running() != 0 {
						t.Errorf("%d places, %d wait, %d meters run", g.Busy, g.Queued, r.meter.Running())
					}
					a := <-done
					if a.got != string(sent) {
						t.Errorf("%d bytes came back, want %d", len(a.got), len(sent))
					}
					if want := fmt.Sprint(size, " []"); a.res.Header.Get("Got") != want {
						t.Errorf("the backend got %q, want %q", a.res.Header.Get("Got"), want)
					}
					if cost := r.line()["cost_ms"].(float64); cost > 1 {
						t.Errorf("it cost %v ms", cost)
					}
				})
			})
		}
	}
}

// TestBrokenUpload has clients that break off or stall while their body is read
// ahead: the limiter never hears of them.
func TestBrokenUpload(t *testing.T) {
	for _, length := range []string{"Content-Length: 100", "Content-Length: 100000", "Transfer-Encoding: chunked"} {
		for _, stalls := range []bool{false, true} {
			t.Run(fmt.Sprint(length, " ", stalls), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					asked := 0
					r := startVirtual(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
						asked++
						_, _ = io.Copy(io.Discard, q.Body)
					}), fairly, func(s *setup) { s.body = 500 * time.Millisecond })
					c := r.dial()
					send(t, c, "POST / HTTP/1.1\r\nHost: h\r\n"+length+"\r\n\r\n5\r\nhalf")
					synctest.Wait()
					if stalls {
						if res := answerOn(t, c); res.StatusCode != 408 {
							t.Errorf("got %d", res.StatusCode)
						}
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
			})
		}
	}
}

// TestLiveUpload has bodies of unknown length, larger than there is room for,
// that come faster and slower than the backend reads them.
func TestLiveUpload(t *testing.T) {
	for _, pause := range []time.Duration{0, 300 * time.Millisecond} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprint(pause, " h2 ", h2), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
						q.Body = io.NopCloser(&trickle{q.Body})
						giveBack(w, q)
					}), fairly, func(s *setup) { s.buffer.RequestMemory, s.buffer.Request = 16<<10, 40_000 })
					sent := noise(200_000)
					c := map[bool]*http.Client{false: r.client, true: r.h2c}[h2]
					res, got := r.do(c, request(t, &slowly{sent, 9000, pause}, "POST /"))
					if got != string(sent) || res.Header.Get("Got") != "-1 [chunked]" {
						t.Errorf("%d bytes came back, want %d; the backend got %q", len(got), len(sent), res.Header.Get("Got"))
					}
					for _, line := range r.lines() {
						if line["outcome"] != "answered" {
							t.Errorf("access log: %v", line)
						}
					}
				})
			})
		}
	}
}

// trickle reads a little at a time.
type trickle struct{ io.Reader }

func (s *trickle) Read(p []byte) (int, error) {
	time.Sleep(10 * time.Millisecond)
	return s.Reader.Read(p[:min(len(p), 5000)])
}

// TestSlowReadersHoldNoPlace has more clients than there are workers read
// nothing of what they asked for: the backend is done at once, and others are
// served meanwhile. In the end they all have what was sent, the trailer too.
func TestSlowReadersHoldNoPlace(t *testing.T) {
	const size = 1 << 20
	sent := noise(size)
	for _, path := range []string{"/length", "/chunked"} {
		for _, m := range []limiter.Mode{limiter.Fair, limiter.Cooperative} {
			t.Run(path+" "+m.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
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
						res, err := map[bool]*http.Client{false: r.client, true: r.h2c}[i%2 == 1].Do(request(t, nil, "GET "+path))
						if err != nil {
							t.Fatal(err)
						}
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
					for _, line := range r.lines() {
						if line["outcome"] != "answered" || line["bytes"] != int64(size) {
							t.Errorf("access log: %v", line)
						}
					}
				})
			})
		}
	}
}

// TestNoRoom has a file system that takes nothing: bodies stream, no byte is
// lost, and who reads slowly holds a place.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := spool.NewStore(spool.Limits{Directory: filepath.Join(t.TempDir(), "missing"), Memory: 32 << 10, Disk: 1 << 30, Address: 1})
		r := startVirtual(t, http.HandlerFunc(giveBack), fairly, func(s *setup) {
			s.buffer.Store = store
			s.source = cpuaccount.Corrected
		})
		sent := noise(1 << 20)
		for _, c := range []*http.Client{r.client, r.h2c} {
			for _, body := range []io.Reader{bytes.NewReader(sent), io.MultiReader(bytes.NewReader(sent))} {
				q := request(t, body, "POST /")
				res, err := c.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute / 2)
				if g := r.limiter.GateState(); c == r.client && g.Busy != 1 { // the other one's window has room for it
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

// TestPiecesComeAtOnce has the backend wait until its client has got each piece
// of a page: also where the client is slower at first, so that a spool has some.
func TestPiecesComeAtOnce(t *testing.T) {
	seen := make(chan struct{})
	for _, head := range []http.Header{{}, {"X-Accel-Buffering": {"no"}}, {"Content-Type": {"text/event-stream"}}} {
		for _, change := range []func(*setup){func(*setup) {}, unbuffered} {
			r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), head)
				w.WriteHeader(200)
				_ = http.NewResponseController(w).Flush()
				<-seen
				for i := range 5 {
					fmt.Fprintf(w, "piece %d", i)
					_ = http.NewResponseController(w).Flush()
					<-seen
				}
			}), change)
			r.each(t, func(t *testing.T, c *http.Client) {
				res, err := c.Do(request(t, nil, "GET /"))
				if err != nil {
					t.Fatal(err)
				}
				seen <- struct{}{}
				for i := range 5 {
					want := fmt.Sprintf("piece %d", i)
					got := make([]byte, len(want))
					if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
						t.Fatalf("got %q, %v, want %q", got, err, want)
					}
					seen <- struct{}{}
				}
				if rest := readAll(t, res); rest != "" || res.Header.Get("X-Accel-Buffering") != strings.Join(head["X-Accel-Buffering"], "") {
					t.Errorf("the rest is %q, the header %v", rest, res.Header)
				}
			})
		}
	}
}

// TestLeavesTheSpool has clients leave after the backend was done: that is
// charged as ever, and nothing is kept.
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
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			_ = res.Body.Close()
		}
		for _, line := range r.lines() {
			if line["cost_ms"] != 1000.0 {
				t.Errorf("access log: %v", line)
			}
		}
	})
}

// TestLiveTrailers has bodies end with a trailer while the backend reads them.
func TestLiveTrailers(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		_, _ = io.WriteString(w, q.Trailer.Get("Sum"))
	}))
	r.each(t, func(t *testing.T, c *http.Client) {
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				pr, pw := io.Pipe()
				time.AfterFunc(aheadTime+time.Duration(i-10)*100*time.Microsecond, func() { _ = pw.Close() })
				q := request(t, pr, "POST /")
				q.Trailer = http.Header{"Sum": {"s3"}}
				if _, got := r.do(c, q); got != "s3" {
					t.Errorf("the trailer is %q", got)
				}
			})
		}
		all.Wait()
	})
}

// TestWhoKeepsUpNeedsNoSpool has a client read as fast as the backend gives.
func TestWhoKeepsUpNeedsNoSpool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A file that cannot be made is counted.
		store := spool.NewStore(spool.Limits{Directory: filepath.Join(t.TempDir(), "missing"), Disk: 1 << 30, Address: 1})
		r := startVirtual(t, http.HandlerFunc(giveBack), fairly, func(s *setup) { s.buffer.Store = store; s.buffer.RequestMemory, s.buffer.Request = 0, 0 })
		sent := noise(1 << 20)
		for _, c := range []*http.Client{r.client, r.h2c} {
			if _, got := r.do(c, request(t, bytes.NewReader(sent), "POST /")); got != string(sent) {
				t.Errorf("%d bytes came back", len(got))
			}
		}
		if s := store.Stats(); s.Errors != 0 {
			t.Errorf("kept: %+v", s)
		}
	})
}
