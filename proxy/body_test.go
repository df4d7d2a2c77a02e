package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
)

// readDeadlines records which read deadlines are set.
type readDeadlines struct {
	http.ResponseWriter
	set func(time.Time)
}

func (d readDeadlines) SetReadDeadline(t time.Time) error {
	d.set(t)
	return nil
}

// TestDeadlineGoesBeforeTheEnd: once a body is complete, its exchange may end at any time, and the connection
// may then serve another request.
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

// TestUploadsAsPages: clients of many networks request a light page and slowly send a body that can't be read
// ahead. They hold few workers, and don't make the page look like one that holds workers.
func TestUploadsAsPages(t *testing.T) {
	for _, header := range []string{"", "Expect: 100-continue", "Content-Type: application/grpc"} {
		inBubble(t, header, func(t *testing.T) {
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
			if long := r.limiter.GateState().Workers - 1; most > long { // one worker is kept for short requests
				t.Errorf("%d are at the backend, want at most %d", most, long)
			}
			for range 20 {
				from := time.Now()
				if res, _ := r.do(r.client, request(t, nil, "GET /page")); res.StatusCode != 200 || time.Since(from) > 100*time.Millisecond {
					t.Errorf("the page: %d after %s", res.StatusCode, time.Since(from))
				}
			}
		})
	}
}

// TestWithheldBody: a client withholds a body that the backend doesn't read, so the backend computes all the time. Only
// methods that usually have a body count as an upload.
func TestWithheldBody(t *testing.T) {
	for method, want := range map[string]float64{"GET": 10_000, "POST": 0} {
		inBubble(t, method, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * time.Second) }),
				func(s *setup) { s.source = cpuaccount.Corrected })
			c := r.dial()
			send(t, c, method+" / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\n")
			for range 21 { // the backend's connection is closed within the last half second
				time.Sleep(time.Second / 2)
				r.handler.Measure(time.Now(), cpuaccount.Use{CPUs: 1, Own: -1, Lacked: -1})
			}
			answer(t, bufio.NewReader(c), method)
			_ = c.Close()
			if cost := r.line()["cost_ms"].(float64); cost < 0.9*want || cost > want {
				t.Errorf("it cost %v ms, want %v", cost, want)
			}
		})
	}
}

// TestBreaksOffAtTheBackend: a client breaks off its body while the backend has the request. The request's
// place becomes free at once if the backend reads the body, otherwise when the backend has finished.
func TestBreaksOffAtTheBackend(t *testing.T) {
	for _, header := range []string{
		"Transfer-Encoding: chunked\r\nContent-Type: application/grpc", // it isn't read ahead for a second
		"Content-Length: 100\r\nExpect: 100-continue",
	} {
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
			r.checkLog(map[string]any{"outcome": "client gone"})
		})
	}
}

// TestBreaksOffInTheQueue: clients that wait in the queue break off their bodies: one sends invalid chunks, the
// other sends nothing more. Each gets the usual answer for its mistake. Clients that disconnect before they
// have sent their bodies stop waiting.
func TestBreaksOffInTheQueue(t *testing.T) {
	for rest, want := range map[string]int{"zz\r\n": http.StatusBadRequest, "": http.StatusRequestTimeout} {
		synctest.Test(t, func(t *testing.T) {
			work := make(chan bool)
			r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-work }), fairly,
				func(s *setup) { s.body = 10 * time.Second })
			t.Cleanup(func() { close(work) }) // runs before the proxy waits for its requests
			var unsent []net.Conn
			for range 24 {
				unsent = append(unsent, r.dial())
				send(t, unsent[len(unsent)-1], "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
			}
			synctest.Wait()
			c := r.dial()
			send(t, c, "POST /upload HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
			waits := func() bool {
				_, n := r.handler.ListWaiting(time.Now(), 1, func(u *Underway) bool { return u.Target == "/upload" })
				return n == 1
			}
			testkit.Eventually(t, "the upload waits", waits)
			send(t, c, rest)
			testkit.Same(t, want, answer(t, bufio.NewReader(c), "POST").StatusCode, "%q: status", rest)
			if r.limiter.GateState().Queued == 0 {
				t.Error("none of those before it waits")
			}
			for _, c := range unsent {
				_ = c.Close()
			}
			testkit.Eventually(t, "nobody waits", func() bool { return r.limiter.GateState().Queued == 0 })
		})
	}
}

// TestLeavesAnUploadThatNobodyReads: the proxy notices a client that disconnects in the middle of a body,
// although the backend doesn't read it, and gives up on the backend in time.
func TestLeavesAnUploadThatNobodyReads(t *testing.T) {
	back, done := loopback(t), make(chan struct{})
	back.serveEach(t, func(net.Conn) { <-done })
	r := startOn(t, loopback(t), back, nil, func(s *setup) { s.backend.Timeout = 200 * time.Millisecond })
	c := r.dial()
	send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 100000000\r\n\r\n")
	for taken := 1; taken > 0; { // until the proxy takes no more
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		taken, _ = c.Write(make([]byte, 1<<20))
	}
	_ = c.Close()
	testkit.Eventually(t, "the backend is given up", func() bool {
		running := 0
		r.handler.running.Each(func(*exchange) { running++ })
		return running == 0
	})
	close(done)
}
