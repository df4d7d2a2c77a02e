package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

// limited sets a different value for each limit on what a client may hold open.
func limited(s *setup) {
	s.server.Header, s.body, s.write, s.server.Idle = 10*time.Second, 20*time.Second, 30*time.Second, 40*time.Second
}

// TestClientsThatStop: clients stop halfway, and the proxy disconnects each after the time limit that applies.
func TestClientsThatStop(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/unread" {
			_, _ = io.Copy(io.Discard, q.Body)
		} else {
			w.Header().Set("Connection", "close") // otherwise net/http would read all of it
		}
		w.Header().Set("Content-Length", strconv.Itoa(1<<16))
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<16))
	})
	for _, tc := range []struct {
		name, send string
		status     int // of the answer
		closed     time.Duration
	}{
		{"in the header", "GET / HTTP/1.1\r\nHos", 408, 15 * time.Second},
		{"in the body", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf", 408, 25 * time.Second},
		{"in a chunk", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf", 408, 25 * time.Second},
		{"in a body that nobody reads", "POST /unread HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\nhalf", 200, 5 * time.Second},
		{"before a body that nobody waits for", "POST /unread HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n", 200, 5 * time.Second},
		{"after a request", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 200, 40 * time.Second},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			r := startVirtual(t, backend, limited, func(s *setup) { s.buffer.Request = 50_000 })
			c := r.dial()
			from := time.Now()
			go func() { _, _ = io.WriteString(c, tc.send) }()
			br := bufio.NewReader(c)
			res := answer(t, br, "GET")
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != tc.status {
				t.Errorf("got %d, %v, want %d", res.StatusCode, err, tc.status)
			}

			if rest, err := io.ReadAll(br); len(rest) != 0 || err != nil {
				t.Errorf("then got %q, %v", rest, err)
			}
			if took := time.Since(from); took < tc.closed || took > tc.closed+2*time.Second {
				t.Errorf("closed after %s, want %s", took, tc.closed)
			}
		})
	}
}

// TestSlowButSteady: clients take longer than the limits in total, but never for a single piece.
func TestSlowButSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			b, _ := io.ReadAll(q.Body)
			_, _ = w.Write(b)
		}), limited)
		c := r.dial()
		br := bufio.NewReaderSize(c, 16)
		for range 3 {
			send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n")
			for range 10 {
				time.Sleep(19 * time.Second)
				send(t, c, strings.Repeat("x", 10))
			}
			res := answer(t, br, "POST")
			if body := readAll(t, res); len(body) != 100 || res.StatusCode != 200 {
				t.Errorf("got %d, %d bytes", res.StatusCode, len(body))
			}
			time.Sleep(39 * time.Second)
		}
	})
}

// TestDeadlinesDoNotOutliveTheirRequest: a connection keeps no deadline of an earlier request.
func TestDeadlinesDoNotOutliveTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/late" { // the proxy asks for the body, because the backend doesn't
				time.Sleep(5 * time.Second)
			}
			b, _ := io.ReadAll(q.Body)
			if q.URL.Path == "/slow" {
				time.Sleep(50 * time.Second) // longer than any limit
			}
			if q.URL.Path == "/head" { // leaves less room than the body needs
				w.Header().Set("X-Long", strings.Repeat("x", 7500))
				b = append(b, strings.Repeat(" ", 1500)...)
			}
			if q.URL.Path == "/pause" {
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Second)
			}
			_, _ = io.WriteString(w, "got "+string(b))
		}), limited)
		c := r.dial()
		br := bufio.NewReader(c)
		for _, target := range []string{"/", "/slow", "/", "/pause", "/slow", "/", "/head"} {
			for _, body := range []string{"", "body"} {
				if body == "" {
					send(t, c, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")
				} else {
					send(t, c, "POST "+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"+body)
				}
				res := answer(t, br, "GET")
				if got := strings.TrimRight(readAll(t, res), " "); res.StatusCode != 200 || got != strings.TrimRight("got "+body, " ") {
					t.Fatalf("%s: got %d %q", target, res.StatusCode, got)
				}
				time.Sleep(35 * time.Second) // longer than a piece of the response may take
			}
		}
		// A 100 Continue is written before anything else of the response.
		for _, target := range []string{"/", "/late"} {
			send(t, c, "POST "+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
			if res, err := http.ReadResponse(br, nil); err != nil || res.StatusCode != http.StatusContinue {
				t.Fatalf("%s: got %v, %v", target, res, err)
			}
			send(t, c, "body")
			readAll(t, answer(t, br, "POST"))
			time.Sleep(35 * time.Second)
		}
	})
}

// TestReadsNothing: clients read nothing of a response, and one HTTP/2 client doesn't even read from its
// connection.
func TestReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(1<<24))
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<24))
		}), limited)
		for i, c := range []*http.Client{r.client, r.h2c} {
			res, err := c.Do(request(t, nil, "GET /")) // the body fills its window
			testkit.Must(t, err)
			time.Sleep(29 * time.Second)
			testkit.Same(t, i, r.access.Len(), "given up after 29 s")
			time.Sleep(2 * time.Second)
			testkit.Same(t, i+1, r.access.Len(), "given up after 31 s")
			_ = res.Body.Close()
		}

		c := r.dial()
		send(t, c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // and reads nothing
		time.Sleep(41 * time.Second)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection is still there: %v", err)
		}
	})
}

// TestPauseAtTheEnd: the end of a response comes long after its last piece, for charged and for exempt requests.
func TestPauseAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "all")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(2 * time.Minute)
		}), limited, exempt("/exempt"))
		for _, target := range []string{"/", "/exempt"} {
			for _, c := range []*http.Client{r.client, r.h2c} {
				_, body := r.do(c, request(t, nil, "GET "+target))
				testkit.Same(t, "all", body, "%s", target)
			}
		}
	})
}
