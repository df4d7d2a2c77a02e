package backend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

// TestTimeout: the timeout applies to the head of the answer, after the request was sent, and not to the
// body.
func TestTimeout(t *testing.T) {
	const timeout = 200 * time.Millisecond
	for name, test := range map[string]func(*testing.T){
		"no answer": func(t *testing.T) {
			wait := make(chan struct{})
			s := serveVirtual(t, once("HTTP/1.1 100 Continue\r\n\r\n", wait))
			from := time.Now()
			_, _, err := do(s.pool(timeout), get())
			if late, ok := errors.AsType[net.Error](err); !ok || !late.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error(err)
			}
			testkit.Same(t, timeout, time.Since(from), "it took")
			close(wait)
		},
		"no second answer": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				_, _ = http.ReadRequest(br)
				_, _ = io.WriteString(c, hello)
				_, _ = io.Copy(io.Discard, br)
			})
			p := s.pool(timeout)
			for _, pause := range []time.Duration{timeout / 2, 2 * timeout} { // the earlier deadline is in the future, or has passed
				warm(t, p)
				time.Sleep(pause)
				from := time.Now()
				if _, _, err := do(p, get()); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				testkit.Same(t, timeout, time.Since(from), "after %s it took", pause)
			}
		},
		"a slow body": func(t *testing.T) {
			s := serveVirtual(t, func(c net.Conn, br *bufio.Reader) {
				_, _ = http.ReadRequest(br)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
				for range 2 {
					time.Sleep(3 * timeout / 2)
					_, _ = io.WriteString(c, "x")
				}
			})
			if _, body, err := do(s.pool(timeout), get()); err != nil || body != "xx" {
				t.Errorf("%q, %v", body, err)
			}
		},
		"a slow upload": func(t *testing.T) {
			r := &Request{Method: "POST", Target: "/", Length: -1, Body: slowly{2 * timeout, strings.NewReader("abc")}}
			s := serveVirtual(t, answers(hello))
			if _, _, err := do(s.pool(timeout), r); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// slowly is a body that arrives after a delay.
type slowly struct {
	after time.Duration
	io.Reader
}

func (s slowly) Read(p []byte) (int, error) {
	time.Sleep(s.after)
	return s.Reader.Read(p)
}

func (slowly) Close() error { return nil }

// TestIsOpening: IsOpening is true only while the first connection of a request is opened. It is
// false after the answer, and when a new connection replaces one that ended.
func TestIsOpening(t *testing.T) {
	var call Call
	dialled, first := 0, true
	served := func(c net.Conn, br *bufio.Reader) {
		_, _ = http.ReadRequest(br)
		if call.IsOpening() {
			t.Error("the backend has the request")
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
		_, _ = http.ReadRequest(br) // ends the connection at the second request
	}
	s := serve(t, served, served, served)
	dial := func(ctx context.Context) (net.Conn, error) {
		testkit.Same(t, first, call.IsOpening(), "connection %d: it is being opened, and is the request's first", dialled)
		dialled++
		return s.dial(ctx)
	}
	p := s.pool(0)
	for i := range 3 {
		if first = i != 1; i == 2 {
			p = s.pool(0) // a pool that keeps no connection
		}
		p.dial = dial
		call.Begin()
		if call.IsOpening() {
			t.Error("nothing was asked")
		}
		a, err := p.Do(&call, get())
		testkit.Must(t, err)
		_, _ = io.ReadAll(a)
		_ = a.Close()
		if call.Conn() != nil || call.IsOpening() {
			t.Error("it is over")
		}
	}
	testkit.Same(t, 3, dialled, "connections")
}

// TestCancel cancels a request at each stage.
func TestCancel(t *testing.T) {
	for _, stage := range []string{"dialling", "before the head", "in the body"} {
		call, reached, end := &Call{}, make(chan struct{}), make(chan struct{})
		text := map[string]string{"in the body": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"}[stage]
		s := serve(t, func(c net.Conn, br *bufio.Reader) {
			_, _ = http.ReadRequest(br)
			_, _ = io.WriteString(c, text)
			close(reached)
			<-end
		})
		p := s.pool(0)
		if stage == "dialling" {
			p.dial = func(ctx context.Context) (net.Conn, error) {
				close(reached)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		go func() {
			<-reached
			call.Cancel()
		}()
		a, err := p.Do(call, get())
		if err == nil {
			_, err = io.ReadAll(a)
			_ = a.Close()
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", stage, err)
		}
		if _, err := p.Do(call, get()); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, the next request before Begin: %v", stage, err)
		}
		close(end)
	}
}
