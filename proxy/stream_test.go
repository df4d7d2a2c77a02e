package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/connlimit"
)

// echo sends each piece of a request's body back as it arrives.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex()
	w.WriteHeader(200)
	_ = rc.Flush()
	buf := make([]byte, 100)
	for {
		n, err := r.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = rc.Flush()
		if err != nil {
			return
		}
	}
})

// TestEchoWhileReading: the client waits for the answer to each piece of its body before it sends the next
// one. A client that talks with the backend waits less for the first answer.
func TestEchoWhileReading(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative} {
		for contents, wait := range map[string]time.Duration{"text/plain": aheadTime, "application/grpc": talkTime} {
			inBubble(t, m.String()+" "+contents, func(t *testing.T) {
				r := startVirtual(t, echo, mode(m), func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
				for _, c := range []*http.Client{r.client, r.h2c} {
					from := time.Now()
					pr, pw := io.Pipe()
					res, err := c.Do(request(t, pr, "POST /", "Content-Type: "+contents))
					testkit.Must(t, err)
					if took := time.Since(from); !near(took, wait) {
						t.Errorf("the answer begins after %s, want %s", took, wait)
					}
					buf := make([]byte, 7)
					for i := range 20 {
						piece := fmt.Sprintf("piece%02d", i)
						if _, err := io.WriteString(pw, piece); err != nil {
							t.Fatal(err)
						}
						if _, err := io.ReadFull(res.Body, buf); err != nil || string(buf) != piece {
							t.Fatalf("got %q, %v, want %q", buf, err, piece)
						}
					}
					_ = pw.Close()
					testkit.Same(t, "", readAll(t, res), "the end")
				}
			})
		}
	}
}

// TestPauses: the backend doesn't continue until the client has received all that was sent so far, first the
// header, and then more than the buffer for the backend's answer holds.
func TestPauses(t *testing.T) {
	const size = 40_000
	answers := map[string]struct{ header, before, after, end string }{
		"/length":     {header: "Content-Length: 80000\r\n"},
		"/chunked":    {"Transfer-Encoding: chunked\r\n", "9c40\r\n", "\r\n", "0\r\n\r\n"},
		"/end":        {},
		"/unbuffered": {header: "Content-Length: 80000\r\nX-Accel-Buffering: no\r\n"},
		"/events":     {header: "Content-Type: text/event-stream\r\n"},
	}
	back := loopback(t)
	seen := make(chan struct{})
	back.serveEach(t, func(c net.Conn) {
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		a := answers[q.URL.Path]
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n"+a.header+"\r\n")
		<-seen
		_, _ = io.WriteString(c, a.before+strings.Repeat("x", size)+a.after)
		<-seen
		_, _ = io.WriteString(c, a.before+strings.Repeat("y", size)+a.after+a.end)
	})
	for name, change := range map[string]func(*setup){
		"observe": mode(limiter.Observe), "cooperative": mode(limiter.Cooperative), "unbuffered": unbuffered,
	} {
		r := startOn(t, loopback(t), back, nil, change, func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
		r.each(t, func(t *testing.T, c *http.Client) {
			for path := range answers {
				res, err := c.Do(request(t, nil, "GET "+path))
				testkit.Must(t, err)
				seen <- struct{}{}
				got := make([]byte, size)
				if _, err := io.ReadFull(res.Body, got); err != nil {
					t.Fatal(err)
				}
				seen <- struct{}{}
				if rest := readAll(t, res); rest != strings.Repeat("y", size) {
					t.Errorf("%s %s: then comes %q", name, path, rest)
				}
				if told := res.Header.Get("X-Accel-Buffering"); (told == "no") != (path == "/unbuffered") {
					t.Errorf("%s %s: the client is told %q", name, path, told)
				}
			}
		})
		r.stop()
	}
}

// TestEarlyHints: the backend waits until the client has received the 103.
func TestEarlyHints(t *testing.T) {
	seen := make(chan struct{}, 1)
	backend := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.Header().Set("Tempomat-Standing", "known")
		w.Header().Set("Tempomat-Cost", "0")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusProcessing)
		<-seen
		w.Header().Del("Link")
		w.Header().Set("Final", "yes")
		_, _ = io.WriteString(w, "page")
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		var got []string
		trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			got = append(got, fmt.Sprint(code, h["Link"], len(h)))
			if code == http.StatusProcessing {
				seen <- struct{}{}
			}
			return nil
		}}
		q := request(t, nil, "GET /")
		res, body := r.do(c, q.WithContext(httptrace.WithClientTrace(q.Context(), trace)))
		want := "[103 [</a.css>; rel=preload] 1 102 [</a.css>; rel=preload] 1]"
		if fmt.Sprint(got) != want || body != "page" || res.Header.Get("Link") != "" || res.Header.Get("Final") != "yes" {
			t.Errorf("hints %v, then %q with %v", got, body, res.Header)
		}
	})
}

// TestTrailersThatMayNotBe: fields that no program checks after a body pass in neither direction.
func TestTrailersThatMayNotBe(t *testing.T) {
	all := []string{
		"Sum", "Host", "Authorization", "X-Forwarded-For", "X_Real_Ip", "Cookie", "Set-Cookie", "Content-Type",
		"Tempomat-Standing", "Tempomat-Cost", "Connection",
	}
	reached := make(chan http.Header, 1)
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		reached <- q.Trailer
		_, _ = io.WriteString(w, "page")
		_ = http.NewResponseController(w).Flush() // otherwise its length would be announced, and nothing could follow it
		for _, name := range all {
			w.Header()[http.TrailerPrefix+name] = []string{"1"}
		}
	}))
	r.each(t, func(t *testing.T, c *http.Client) {
		q := request(t, io.NopCloser(strings.NewReader("body")), "POST /")
		q.ContentLength, q.Trailer = -1, http.Header{}
		for _, name := range all {
			if name == "Sum" || name == "X-Forwarded-For" || c == r.client && name != "Content-Type" { // net/http refuses some
				q.Trailer[http.CanonicalHeaderKey(name)] = []string{"1"}
			}
		}
		res, _ := r.do(c, q)
		if got := <-reached; len(got) != 1 || got.Get("Sum") != "1" {
			t.Errorf("the backend got %v", got)
		}
		if len(res.Trailer) != 1 || res.Trailer.Get("Sum") != "1" {
			t.Errorf("the client got %v", res.Trailer)
		}
	})
}

// reader is an HTTP/2 client that decides how much of its answers it reads.
type reader struct {
	t        *testing.T
	framer   *http2.Framer
	host     string
	next     uint32
	statuses map[string]int
	ended    int
	reset    int // number of them that the server reset
}

// newReader returns a reader with windows of zero, which gets no part of a body.
func newReader(t *testing.T, c net.Conn) *reader {
	t.Helper()
	r := &reader{t: t, framer: http2.NewFramer(c, c), host: "h", next: 1, statuses: map[string]int{}}
	send(t, c, http2.ClientPreface)
	r.check(r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	r.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go r.read()
	return r
}

func (r *reader) check(err error) {
	r.t.Helper()
	testkit.Must(r.t, err)
}

func (r *reader) read() {
	for {
		f, err := r.framer.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			r.statuses[h.PseudoValue("status")]++
		}
		_, isReset := f.(*http2.RSTStreamFrame)
		if isReset {
			r.reset++
		}
		if isReset || f.Header().Flags.Has(http2.FlagDataEndStream) && f.Header().Type != http2.FrameSettings {
			r.ended++
		}
	}
}

// ask sends several requests, each on its own stream.
func (r *reader) ask(path string, times int) {
	r.t.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for range times { // one after the other, so each request finds the earlier answers unread
		head.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", r.host}, {":path", path}} {
			r.check(e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		r.check(r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.next, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}))
		r.next += 2
		synctest.Wait()
	}
}

// open lets all answers arrive.
func (r *reader) open() {
	r.t.Helper()
	r.check(r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	r.check(r.framer.WriteWindowUpdate(0, 2<<20))
	synctest.Wait()
}

// counted returns how many streams with a short answer count toward the shared limit.
func (r *rig) counted() int {
	return r.handler.heads.Held() / (unreadSize + smallPiece)
}

// TestStreamsThatAreNotRead: a client that reads none of its answers holds no more than its part of the memory,
// whatever it requests and on however many connections. Other clients are served, and this client as well when
// it reads again.
func TestStreamsThatAreNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		status, path string
		conns        int
	}{"one connection": {"200", "/", 1}, "refusals": {"400", "/a#b", 1}, "few streams on each": {"200", "/", 20}} {
		inBubble(t, name, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
			const room = 20
			r.handler.BoundHeads(2 * room * connlimit.OnePart * (unreadSize + smallPiece))
			var all []*reader
			ended, reset, answered := 0, 0, 0
			for range c.conns {
				x := newReader(t, r.dial())
				x.ask(c.path, 100/c.conns)
				all, ended, reset, answered = append(all, x), ended+x.ended, reset+x.reset, answered+x.statuses[c.status]
			}
			if n := r.counted(); n < room || n > 2*room {
				t.Errorf("%d streams are counted", n)
			}
			if ended < 100-2*room*5/4-c.conns || ended != reset || answered != 100 { // refusals count less
				t.Errorf("of 100 streams %d are closed, %d over and %d answered", reset, ended, answered)
			}
			other := newClient(r.front.from("192.0.2.99"), true)
			defer other.CloseIdleConnections()
			if res, body := r.do(other, request(t, nil, "GET /")); res.StatusCode != http.StatusOK || body != "hello" {
				t.Errorf("another client gets %d, %q", res.StatusCode, body)
			}
			for _, x := range all {
				if x.open(); x.ended != 100/c.conns {
					t.Errorf("once it reads, %d of %d are over", x.ended, 100/c.conns)
				}
			}
			testkit.Same(t, 0, r.counted(), "streams counted that are over")
		})
	}
}

// TestSlowReaders: a browser requests 170 images at once, or 25 browsers of a school 29 each, and they read them late. No
// stream is cut, even if there is little memory.
func TestSlowReaders(t *testing.T) {
	for _, tc := range []struct{ browsers, images, memory int }{{1, 170, 512 << 20}, {25, 29, 1 << 30}} {
		inBubble(t, fmt.Sprint(tc.browsers), func(t *testing.T) {
			image := strings.Repeat("x", 9000)
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, image) }))
			r.handler.BoundHeads(tc.memory / 8)
			var all []*reader
			for range tc.browsers {
				c := newReader(t, r.dial())
				c.ask("/", tc.images)
				all = append(all, c)
			}
			for _, c := range all {
				if c.open(); c.ended != tc.images || c.reset != 0 || c.statuses["200"] != tc.images {
					t.Errorf("%d of %d streams are over, %d cut: %v", c.ended, tc.images, c.reset, c.statuses)
				}
			}
		})
	}
}

// TestStreamsAreTold: as soon as an answer turns out to be an event stream, or the connection is upgraded,
// the queue knows that the request only holds its worker. This lasts until the request ends, however long
// that takes.
func TestStreamsAreTold(t *testing.T) {
	for _, upgraded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if upgraded {
					shout(w, q)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for http.NewResponseController(w).Flush() == nil && q.Context().Err() == nil {
					time.Sleep(500 * time.Millisecond)
					_, _ = io.WriteString(w, "data: x\n\n")
				}
			}), fairly)
			var end func()
			if upgraded {
				c, _ := converse(t, r)
				end = func() { _ = c.Close() }
			} else {
				res, err := r.client.Do(request(t, nil, "GET /"))
				testkit.Must(t, err)
				end = func() { _ = res.Body.Close() }
			}
			for _, later := range []time.Duration{0, 10 * time.Second, 40 * time.Second} {
				time.Sleep(later)
				synctest.Wait()
				if g := r.limiter.GateState(); g.Holding != 1 || g.LongBusy != 1 || g.Busy != 1 {
					t.Errorf("upgraded %t, %s later: the gate counts %+v, want one that holds its worker", upgraded, later, g)
				}
			}
			end()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			testkit.Same(t, 0, r.limiter.GateState().Busy, "upgraded %t: it is over, requests that the gate counts", upgraded)
		})
	}
}

// TestAClientThatNeverReads: its streams end after the write timeout, and no longer count.
func TestAClientThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
		c := newReader(t, r.dial())
		c.ask("/", 20)
		testkit.Same(t, 20-1, r.counted(), "streams counted")
		time.Sleep(defaults().write + time.Second)
		synctest.Wait()
		if n := r.counted(); n != 0 || c.ended != 20 {
			t.Errorf("%d streams are counted, and %d of 20 over", n, c.ended)
		}
	})
}

// TestHeadThatWaits: the backend answers long after its early hints, and the header waits behind other streams. The
// client has the full time to read the header.
func TestHeadThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/late" {
				w.WriteHeader(http.StatusEarlyHints)
				time.Sleep(12 * time.Second)
			}
			w.Header().Set("X-Long", strings.Repeat("x", 20<<10)) // fills the queue
		}), func(s *setup) { s.write = 5 * time.Second })
		conn := r.dial()
		send(t, conn, http2.ClientPreface)
		c := &reader{t: t, framer: http2.NewFramer(conn, conn), host: "h", next: 1, statuses: map[string]int{}}
		c.check(c.framer.WriteSettings())
		c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		hears := func(frames int) {
			for range frames {
				_, err := c.framer.ReadFrame()
				c.check(err)
			}
		}
		hears(3) // SETTINGS, WINDOW_UPDATE and SETTINGS ACK
		c.ask("/late", 1)
		hears(1) // the early hints
		time.Sleep(8 * time.Second)
		c.ask("/", 2)
		time.Sleep(4500 * time.Millisecond) // of the 5 s that the client may take
		go c.read()
		time.Sleep(time.Second)
		synctest.Wait()
		if c.ended != 3 || c.reset != 0 {
			t.Errorf("%d of 3 streams are over, %d reset", c.ended, c.reset)
		}
	})
}
