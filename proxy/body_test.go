package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

// readDeadlines tells which deadlines for reading are set.
type readDeadlines struct {
	http.ResponseWriter
	set func(time.Time)
}

func (d readDeadlines) SetReadDeadline(t time.Time) error {
	d.set(t)
	return nil
}

// TestDeadlineGoesBeforeTheEnd: once a body is complete its exchange may end at any time,
// and the connection is another request's.
func TestDeadlineGoesBeforeTheEnd(t *testing.T) {
	var last time.Time
	b := &body{
		ReadCloser: io.NopCloser(strings.NewReader("")),
		x:          &exchange{policy: &Policy{}, request: &http.Request{ProtoMajor: 1}},
	}
	b.conn = http.NewResponseController(readDeadlines{set: func(at time.Time) {
		if last = at; b.complete.Load() {
			t.Error("a deadline is set though the body is complete")
		}
	}})
	if _, err := b.fetch(make([]byte, 1)); !errors.Is(err, io.EOF) || !b.complete.Load() || !last.IsZero() {
		t.Errorf("%v, deadline %v", err, last)
	}
}

// TestUploadsAsPages has clients of many networks ask for a light page and be
// slow to send a body that nobody can read ahead. They hold few workers, and do
// not make the page pass for one that holds workers.
func TestUploadsAsPages(t *testing.T) {
	for _, header := range []string{"", "Expect: 100-continue", "Content-Type: application/grpc"} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					_, _ = io.Copy(io.Discard, q.Body)
					site(w, q)
				}), fairly)
				for range 30 {
					r.do(r.client, request(t, nil, "GET /page"))
				}
				upload := func(i int) {
					c := newClient(r.front.from(fmt.Sprint("10.", i, ".0.1")), false)
					defer c.CloseIdleConnections()
					q := request(t, &slowly{noise(60), 1, time.Second}, "POST /page")
					if header == "Expect: 100-continue" {
						q.ContentLength = 60
						q.Header.Set("Expect", "100-continue")
					} else if header != "" {
						q.Header.Set("Content-Type", "application/grpc")
					}
					if res, err := c.Do(q); err == nil {
						readAll(t, res)
					}
				}
				for i := range 40 {
					r.busy.Go(func() { upload(i) })
				}
				most := 0
				for range 100 {
					time.Sleep(30 * time.Millisecond)
					most = max(most, r.limiter.GateState().Busy)
				}
				if long := r.limiter.GateState().Workers - 1; most > long { // one is left to short requests
					t.Errorf("%d are at the backend, want at most %d", most, long)
				}
				for range 20 {
					from := time.Now()
					if res, _ := r.do(r.client, request(t, nil, "GET /page")); res.StatusCode != 200 || time.Since(from) > 100*time.Millisecond {
						t.Errorf("the page: %d after %s", res.StatusCode, time.Since(from))
					}
				}
			})
		})
	}
}

// TestTalkStartsSoon has a client that talks with the backend: its request is not
// kept until it has said all.
func TestTalkStartsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		came := make(chan time.Time, 1)
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			came <- time.Now()
			_, _ = io.Copy(w, q.Body)
		}), fairly)
		from := time.Now()
		q := request(t, &slowly{noise(10), 1, 300 * time.Millisecond}, "POST /")
		q.Header.Set("Content-Type", "application/grpc")
		_, got := r.do(r.h2c, q)
		if d := (<-came).Sub(from); d > 50*time.Millisecond {
			t.Errorf("the backend was asked after %s", d)
		}
		if got != string(noise(10)) {
			t.Errorf("%d bytes came back", len(got))
		}
	})
}

// TestBreaksOffAtTheBackend has a client break its body off while the backend has
// the request. The place is free when the backend has finished: at once if it
// reads the body, else when its work is done.
func TestBreaksOffAtTheBackend(t *testing.T) {
	for _, header := range []string{"Transfer-Encoding: chunked", "Content-Length: 100\r\nExpect: 100-continue"} {
		t.Run(header, func(t *testing.T) {
			came, work, noticed := make(chan bool), make(chan bool), make(chan bool, 2)
			r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				came <- true
				if q.URL.Path == "/reads" {
					_, err := io.Copy(io.Discard, q.Body)
					noticed <- err != nil
					return
				}
				<-work
			}), fairly)
			begin := func(path string) {
				c := r.dial()
				send(t, c, "POST "+path+" HTTP/1.1\r\nHost: h\r\n"+header+"\r\n\r\n")
				<-came
				_ = c.Close()
			}
			begin("/works")
			r.awaitOrphans(1)
			close(work)
			r.awaitOrphans(0)
			begin("/reads")
			if !<-noticed {
				t.Error("the backend takes the part for the whole")
			}
			r.awaitOrphans(0)
			for _, line := range r.lines() {
				if line["outcome"] != "client gone" {
					t.Errorf("access log: %v", line)
				}
			}
		})
	}
}

// TestBreaksOffInTheQueue has clients wait at the gate whose bodies come to no end meanwhile:
// one sends no chunks, one nothing more. They are told so, as others are.
func TestBreaksOffInTheQueue(t *testing.T) {
	for rest, want := range map[string]int{"zz\r\n": http.StatusBadRequest, "": http.StatusRequestTimeout} {
		synctest.Test(t, func(t *testing.T) {
			work := make(chan bool)
			r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-work }), fairly,
				func(s *setup) { s.body = 10 * time.Second })
			t.Cleanup(func() { close(work) }) // before the proxy waits for its requests
			for range 24 {
				send(t, r.dial(), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
			}
			synctest.Wait()
			c := r.dial()
			send(t, c, "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			waits := func() bool {
				_, n := r.handler.WhoWaits(time.Now(), 1, func(u *Underway) bool { return u.Target == "/upload" })
				return n == 1
			}
			testkit.Eventually(t, "the upload waits", waits)
			send(t, c, rest)
			if res := answerOn(t, c); res.StatusCode != want {
				t.Errorf("%q: got %d", rest, res.StatusCode)
			}
		})
	}
}

// TestLeavesTheQueueUnsent has clients leave who wait at the gate and have not
// sent their bodies: they wait no longer.
func TestLeavesTheQueueUnsent(t *testing.T) {
	work := make(chan bool)
	r := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-work }), fairly)
	var all []net.Conn
	for range 24 {
		c := r.dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
		all = append(all, c)
	}
	for g := r.limiter.GateState(); g.Queued == 0 || g.Queued+g.Busy != 24; g = r.limiter.GateState() {
		time.Sleep(time.Millisecond)
	}
	for _, c := range all {
		_ = c.Close()
	}
	for r.limiter.GateState().Queued != 0 {
		time.Sleep(time.Millisecond)
	}
	close(work)
}

// TestLeavesAnUploadThatNobodyReads: a client that has left in the middle of a body, before
// a backend that does not read, is noticed; the backend is given up in time.
func TestLeavesAnUploadThatNobodyReads(t *testing.T) {
	back, done := loopback(t), make(chan struct{})
	go func() {
		c, err := back.Accept()
		if err != nil {
			return
		}
		<-done
		_ = c.Close()
	}()
	r := startOn(t, loopback(t), back, nil, func(s *setup) { s.backend.Timeout = 200 * time.Millisecond })
	c := r.dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n")
	_ = c.SetWriteDeadline(time.Now().Add(2 * time.Second)) // until nobody takes more
	_, _ = c.Write(make([]byte, 50_000_000))
	_ = c.Close()
	for running := 1; running > 0; time.Sleep(time.Millisecond) { // for ever, if nobody notices
		running = 0
		r.handler.running.Each(func(*exchange) { running++ })
	}
	close(done)
	_ = back.Close()
}
