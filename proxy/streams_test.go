package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

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
	h := r.handler.heads
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all / unreadSize
}

// TestStreamsThatAreNotRead: a client that reads none of its answers holds no more of the memory than its
// part of it, whatever it asks for; others are served, and so is it once it reads.
func TestStreamsThatAreNotRead(t *testing.T) {
	for status, path := range map[string]string{"200": "/", "400": "/a#b"} {
		t.Run(status, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
				const room = 20
				r.handler.BoundHeads(2 * room * headPart * unreadSize)
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
