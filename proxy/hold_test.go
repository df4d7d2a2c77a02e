package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// heldFor makes cooperative mode hold the sleeper's first answer for 9 s.
func heldFor(s *setup) {
	s.limits.Mode = limiter.Cooperative
	s.limits.Classes[0].Budget.CPUs = 0.1
	s.source = cpuaccount.Wall
}

const hold = 9 * time.Second // for 1 CPU-s at 0.1 CPU-s/s, minus the credit earned in that second

// near reports whether d equals want, except for the guess and rounding.
func near(d, want time.Duration) bool { return (d - want).Abs() < 10*time.Millisecond }

// TestHold checks when the parts of a held response arrive.
func TestHold(t *testing.T) {
	const large = 1 << 20
	for _, tc := range []struct {
		name, path string
		size       int
		header     time.Duration // when the header comes
		early      int           // least number of bytes that arrive before the hold
	}{
		{"small", "/length/1000", 1000, time.Second + hold, 0},
		{"empty", "/length/0", 0, time.Second + hold, 0},
		{"large", "/length/" + strconv.Itoa(large), large, time.Second, large - tailSize - 32<<10},
		{"chunked", "/chunked/1000", 1000, time.Second, 1000},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
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
	}
}

func checkHold(t *testing.T, c *http.Client, path string, header time.Duration, early, size int) {
	t.Helper()
	from := time.Now()
	res, err := c.Do(request(t, nil, "GET "+path))
	testkit.Must(t, err)
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

// TestHeldClientLeaves: a held response whose client disconnects frees its place in the waiting room.
func TestHeldClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, sleeper, heldFor)
		for _, c := range []*http.Client{r.client, r.h2c} {
			leaves(t, c, request(t, nil, "GET /"), 2*time.Second)
			time.Sleep(tick) // pause between two checks
			synctest.Wait()
			testkit.Same(t, 0, r.limiter.Held(), "held for nobody")
			time.Sleep(2 * time.Minute)
		}
		for _, line := range r.lines() {
			if wait := line["wait_ms"].(float64); line["outcome"] != "client gone" || wait < 1000 || wait > 1100 {
				t.Errorf("access log: %v", line)
			}
		}
	})
}

// TestWaitingClientLeaves: a waiting request whose client disconnects leaves its queue, and is not charged.
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
			leaves(t, c.Client, request(t, c.body, "POST /"), time.Second)
			time.Sleep(tick) // pause between two checks
			synctest.Wait()
			if got, want := r.row().Level, before+0.11*float64(i+1); r.limiter.Held() != 0 || math.Abs(got-want) > 1e-6 {
				t.Errorf("%d wait for nobody, the level is %f, want %f", r.limiter.Held(), got, want)
			}
		}
		testkit.Same(t, 1, asked, "the backend was asked")
	})
}

// TestOwnCallsRun: the site calls itself, as WordPress does for wp-cron.php, and disconnects at once. The call starts
// at once, or waits for a worker, and it runs although the backend accepts it late. Requests that a proxy on the same
// machine may have sent for visitors are dropped.
func TestOwnCallsRun(t *testing.T) {
	for _, tc := range []struct {
		client, body string
		header       []string
		want         int
	}{
		{client: "198.51.100.80", want: 1},
		{client: "198.51.100.80", body: "small", want: 1},
		{client: "198.51.100.80", header: []string{"X-Forwarded-For: 203.0.113.9"}},
		{client: "127.0.0.1"},
		{client: "192.0.2.1"},
	} {
		for i, h2 := range []bool{false, true, false, true} {
			workers := []int{16, 1}[i/2]
			inBubble(t, fmt.Sprint(tc, " h2 ", h2, " workers ", workers), func(t *testing.T) {
				var ran atomic.Int32
				back := memory()
				dial := back.dial
				back.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					time.Sleep(3 * tick) // the backend's accept queue is full for a while
					return dial(ctx, network, address)
				}
				r := startOn(t, memory(), back, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					w.Header().Set("Connection", "close")
					if q.URL.Path == "/wp-cron.php" {
						ran.Add(1)
					}
					site(w, q)
				}), fairly, func(s *setup) { s.limits.Gate.Workers = workers })
				r.judge()
				r.learn()
				go leaves(t, newClient(r.front, false), request(t, nil, "GET /heavy"), time.Minute)
				time.Sleep(200 * time.Millisecond)
				q := request(t, strings.NewReader(tc.body), "POST /wp-cron.php", tc.header...)
				leaves(t, newClient(r.front.from(tc.client), h2), q, 50*time.Millisecond)
				time.Sleep(500 * time.Millisecond)
				if workers == 1 {
					testkit.Same(t, tc.want, r.limiter.GateState().Queued, "requests that wait half a second later")
				}
				time.Sleep(5 * time.Second)
				testkit.Same(t, tc.want, int(ran.Load()), "runs")
			})
		}
	}
}

// TestOwnCallsGoFirst: a call of the site to itself has as large a share as a visitor with a cookie.
func TestOwnCallsGoFirst(t *testing.T) {
	for client, want := range map[string]float64{"198.51.100.80": 4, "192.0.2.1": 1} {
		inBubble(t, client, func(t *testing.T) {
			r := startOn(t, memory(), memory(), http.HandlerFunc(site), fairly)
			r.judge()
			r.do(newClient(r.front.from(client), false), request(t, nil, "GET /light"))
			if c := r.row().Client; c == nil || c.Standing != want {
				t.Errorf("the client is %+v, want standing %g", c, want)
			}
		})
	}
}

// TestNoHoldAfterAnUpgrade: an idle upgraded connection that is closed takes no place in the waiting room.
func TestNoHoldAfterAnUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			time.Sleep(time.Second)
			shout(w, q)
		}), heldFor, func(s *setup) { s.upgrade = time.Minute })
		from := time.Now()
		_, br := converse(t, r)
		_, _ = io.ReadAll(br)
		r.busy.Wait()
		if took := time.Since(from) - time.Second - time.Minute; took < 0 || took > deadlineStep {
			t.Errorf("it was over %s after the limit", took)
		}
		if line := r.line(); line["cost_ms"] != 1000.0 || line["outcome"] != "answered" {
			t.Errorf("access log: %v", line)
		}
	})
}

// TestHalfClosedWhileHeld: a client can't get the rest of a response early by closing its sending side.
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
	testkit.Eventually(t, "it is held", func() bool { return r.limiter.Held() > 0 })
	testkit.Must(t, c.(interface{ CloseWrite() error }).CloseWrite())
	if rest, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("got the whole response, %d bytes at the end", len(rest))
	}
}
