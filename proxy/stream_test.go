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

	"tempomat/limiter"
	"tempomat/proxy/connlimit"
)

// echo sends each piece of a request's body back as it comes.
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

// TestEchoWhileReading has the client wait for the answer to each piece of its
// body before it sends the next one.
func TestEchoWhileReading(t *testing.T) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative} {
		r := start(t, echo, mode(m), func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
		r.each(t, func(t *testing.T, c *http.Client) {
			pr, pw := io.Pipe()
			q := request(t, pr, "POST /")
			res, err := c.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
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
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) != 0 {
				t.Errorf("the end: %q, %v", rest, err)
			}
		})
	}
}

// TestPauses has a backend that does not go on before the client has what there is, the header first.
func TestPauses(t *testing.T) {
	back := loopback(t)
	seen := make(chan struct{})
	go func() {
		for {
			c, err := back.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				q, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				framing, before, after := "Content-Length: 2000\r\n", "", ""
				switch q.URL.Path {
				case "/chunked":
					framing, before, after = "Transfer-Encoding: chunked\r\n", "3e8\r\n", "\r\n"
				case "/end":
					framing = ""
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n"+framing+"\r\n")
				<-seen
				_, _ = io.WriteString(c, before+strings.Repeat("x", 1000)+after)
				<-seen
				_, _ = io.WriteString(c, before+strings.Repeat("y", 1000)+after)
				if after != "" {
					_, _ = io.WriteString(c, "0\r\n\r\n")
				}
			}()
		}
	}()
	for name, change := range map[string]func(*setup){
		"observe": mode(limiter.Observe), "cooperative": mode(limiter.Cooperative), "unbuffered": unbuffered,
	} {
		r := startOn(t, loopback(t), back, nil, change, func(s *setup) { s.limits.Classes[0].Budget.CPUs = 1e6 })
		r.each(t, func(t *testing.T, c *http.Client) {
			for _, path := range []string{"/length", "/chunked", "/end"} {
				res, err := c.Do(request(t, nil, "GET "+path))
				if err != nil {
					t.Fatal(err)
				}
				seen <- struct{}{}
				got := make([]byte, 1000)
				if _, err := io.ReadFull(res.Body, got); err != nil {
					t.Fatal(err)
				}
				seen <- struct{}{}
				if rest := readAll(t, res); rest != strings.Repeat("y", 1000) {
					t.Errorf("%s %s: then comes %q", name, path, rest)
				}
			}
		})
		r.stop()
	}
}

// TestEarlyHints has the backend wait until the client has got the 103.
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

const expecting = "POST /%s HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"

// TestExpectContinue has a client that sends no body before it is asked to.
func TestExpectContinue(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/417":
			w.WriteHeader(417)
		case "/413":
			w.WriteHeader(413)
		default:
			b, _ := io.ReadAll(r.Body) // writes the 100
			_, _ = w.Write(b)
		}
	})
	r := start(t, backend)
	for path, want := range map[string]int{"417": 417, "413": 413, "200": 200} {
		c := r.dial()
		br := bufio.NewReader(c)
		send(t, c, fmt.Sprintf(expecting, path))
		line, err := br.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if want != 200 {
			if got := fmt.Sprintf("HTTP/1.1 %d %s\r\n", want, http.StatusText(want)); line != got {
				t.Errorf("/%s: got %q", path, line)
			}
		} else if line != "HTTP/1.1 100 Continue\r\n" {
			t.Errorf("/%s: got %q before the body", path, line)
		} else {
			_, _ = br.ReadString('\n')
			send(t, c, "body")
			if res := answer(t, br, "POST"); res.StatusCode != 200 || readAll(t, res) != "body" {
				t.Errorf("got %v after the body", res)
			}
		}
		_ = c.Close()
	}
}

// TestExpectContinueOfASilentBackend has a backend that knows no 100, as one of
// HTTP/1.0: the body has to come all the same.
func TestExpectContinueOfASilentBackend(t *testing.T) {
	back := loopback(t)
	go func() {
		c, err := back.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		q, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		b, _ := io.ReadAll(q.Body)
		_, _ = io.WriteString(c, withBody(string(b)))
	}()
	r := startOn(t, loopback(t), back, nil)
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, fmt.Sprintf(expecting, ""))
	if line, err := br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	_, _ = br.ReadString('\n')
	send(t, c, "body")
	if res := answer(t, br, "POST"); res.StatusCode != 200 || readAll(t, res) != "body" {
		t.Errorf("got %v", res)
	}
}

// TestEarlyAnswer has a backend that refuses an upload it has not read. The
// client gets the answer, and its next request goes over another connection.
func TestEarlyAnswer(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.Header().Set("Connection", "close") // or net/http reads it all
			http.Error(w, "too large", 413)
			return
		}
		_, _ = io.WriteString(w, "page")
	})
	r := start(t, backend)
	r.each(t, func(t *testing.T, c *http.Client) {
		for range 3 {
			pr, pw := io.Pipe()
			res, err := c.Do(request(t, pr, "POST /"))
			if err != nil {
				t.Fatal(err)
			}
			_ = pw.Close()
			if body := readAll(t, res); res.StatusCode != 413 || body != "too large\n" {
				t.Errorf("got %d %q", res.StatusCode, body)
			}
			if res, body := r.do(c, request(t, nil, "GET /")); res.StatusCode != 200 || body != "page" {
				t.Errorf("then got %d %q", res.StatusCode, body)
			}
		}
	})
}

// TestUploadKeepsTheConnection checks that a body that was read to its end costs
// no connection.
func TestUploadKeepsTheConnection(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		_, _ = w.Write(b)
	}))
	c := r.dial()
	br := bufio.NewReader(c)
	for i := range 3 {
		send(t, c, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody")
		res := answer(t, br, "PUT")
		if body := readAll(t, res); body != "body" {
			t.Errorf("request %d: %q", i, body)
		}
	}
	send(t, c, strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\n\r\n", 3)) // pipelined
	for range 3 {
		if res := answer(t, br, "GET"); res.StatusCode != 200 || readAll(t, res) != "" {
			t.Errorf("got %v", res)
		}
	}
}

// TestTrailersThatMayNotBe: what nobody checks after a body gets through neither way.
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
		_ = http.NewResponseController(w).Flush() // or its length is told, and nothing comes after it
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

// reader is a client of HTTP/2 that decides how much of its answers it reads.
type reader struct {
	t        *testing.T
	framer   *http2.Framer
	next     uint32
	statuses map[string]int
	ended    int
	reset    int // of these by the server
}

// newReader has windows of zero: nothing of a body is sent to it.
func newReader(t *testing.T, c net.Conn) *reader {
	t.Helper()
	r := &reader{t: t, framer: http2.NewFramer(c, c), next: 1, statuses: map[string]int{}}
	send(t, c, http2.ClientPreface)
	r.check(r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}))
	r.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	go r.read()
	return r
}

func (r *reader) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
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

// ask asks for something some times, each by a stream of its own.
func (r *reader) ask(path string, times int) {
	r.t.Helper()
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for range times { // one after the other, so that each finds those before it unread
		head.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "h"}, {":path", path}} {
			r.check(e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		r.check(r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.next, BlockFragment: head.Bytes(), EndStream: true, EndHeaders: true}))
		r.next += 2
		synctest.Wait()
	}
}

// open lets all answers come.
func (r *reader) open() {
	r.t.Helper()
	r.check(r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}))
	r.check(r.framer.WriteWindowUpdate(0, 1<<20))
	synctest.Wait()
}

// counted is how many streams take part in what all may hold.
func (r *rig) counted() int {
	return r.handler.heads.Held() / unreadSize
}

// TestStreamsThatAreNotRead: a client that reads none of its answers holds no more of the memory than its
// part of it, whatever it asks for; others are served, and so is it once it reads.
func TestStreamsThatAreNotRead(t *testing.T) {
	for status, path := range map[string]string{"200": "/", "400": "/a#b"} {
		t.Run(status, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
				const room = 20
				r.handler.BoundHeads(2 * room * connlimit.OnePart * unreadSize)
				c := newReader(t, r.dial())
				c.ask(path, 100)
				if n := r.counted(); n < room || n > 2*room {
					t.Errorf("%d streams are counted", n)
				}
				if c.ended < 100-2*room-fewStreams || c.ended != c.reset || len(c.statuses) != 1 || c.statuses[status] != 100-c.ended {
					t.Errorf("of 100 streams %d are closed and %d over: %v", c.reset, c.ended, c.statuses)
				}
				other := newClient(r.front.from("192.0.2.99"), true)
				defer other.CloseIdleConnections()
				if res, body := r.do(other, request(t, nil, "GET /")); res.StatusCode != http.StatusOK || body != "hello" {
					t.Errorf("another client gets %d, %q", res.StatusCode, body)
				}
				if c.open(); c.ended != 100 {
					t.Errorf("once it reads, %d of 100 are over", c.ended)
				}
				if n := r.counted(); n != 0 {
					t.Errorf("%d streams are counted that are over", n)
				}
			})
		})
	}
}

// TestWhoNeverReads is given up after its time, and holds nothing any more.
func TestWhoNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
		c := newReader(t, r.dial())
		c.ask("/", 20)
		if n := r.counted(); n != 20-fewStreams {
			t.Errorf("%d streams are counted", n)
		}
		time.Sleep(defaults().write + time.Second)
		synctest.Wait()
		if n := r.counted(); n != 0 || c.ended != 20 {
			t.Errorf("%d streams are counted, and %d of 20 over", n, c.ended)
		}
	})
}

// TestStreamsAreTold: as soon as an answer turns out an event stream, or the
// connection is upgraded, the gate knows that it only holds its worker; and it
// does until it ends, however long that takes.
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
				if err != nil {
					t.Fatal(err)
				}
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
			if g := r.limiter.GateState(); g.Busy != 0 {
				t.Errorf("upgraded %t: it is over, the gate counts %+v", upgraded, g)
			}
		})
	}
}
