package front

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
)

// steps notes how connections have begun.
type steps struct{ all chan string }

func (s *steps) note(step Step, result Result, remote string, err error) {
	s.all <- fmt.Sprintf("%s %s", step, result)
}

// entered serves a handler at an entrance of the loopback.
func entered(t *testing.T, h http.Handler, e Entrance, change func(*Options)) (l net.Listener, s *Server, seen *steps) {
	t.Helper()
	seen = &steps{all: make(chan string, 1000)}
	o := Options{Header: time.Minute, Idle: time.Minute, MaxHead: 64 << 10, Log: zap.NewNop(), Stepped: seen.note}
	if change != nil {
		change(&o)
	}
	s = NewServer(h, o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l, e) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return l, s, seen
}

// overTLS serves a handler over TLS, and returns how to connect to it.
func overTLS(t *testing.T, h http.Handler, change func(*Options)) (dial func() *tls.Conn, l net.Listener, s *Server, seen *steps) {
	t.Helper()
	authority := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "a.example")}, NextProtos: []string{"h2", "http/1.1"}}
	l, s, seen = entered(t, h, Entrance{TLS: config}, change)
	dial = func() *tls.Conn {
		c := tls.Client(connect(t, l), &tls.Config{RootCAs: authority.Pool, ServerName: "a.example", NextProtos: []string{"http/1.1"}})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	return dial, l, s, seen
}

func connect(t *testing.T, l net.Listener) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return c.(*net.TCPConn)
}

// hear reads answers.
func hear(t *testing.T, r *bufio.Reader, want ...string) {
	t.Helper()
	for _, w := range want {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if got := fmt.Sprintf("%d %s", res.StatusCode, body); got != w || err != nil {
			t.Fatalf("got %q (%v), want %q", got, err, w)
		}
	}
}

const getHello = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"

func tellsTLS(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		http.Error(w, "in the clear", 500)
		return
	}
	script(w, r)
}

// TestSecuredRequests has requests come over TLS in whatever pieces.
func TestSecuredRequests(t *testing.T) {
	dial, l, s, _ := overTLS(t, http.HandlerFunc(tellsTLS), nil)
	t.Run("one after the other, at rest between", func(t *testing.T) {
		c := dial()
		r := bufio.NewReader(c)
		for range 3 {
			_, _ = io.WriteString(c, getHello)
			hear(t, r, "200 hello")
			testkit.Eventually(t, "the connection rests", func() (rested bool) {
				s.conns.Each(func(c *conn) { rested = c.rested.Load() })
				return rested
			})
		}
	})
	t.Run("in one record", func(t *testing.T) {
		c := dial()
		_, _ = io.WriteString(c, strings.Repeat(getHello, 200)) // more than is read at once
		hear(t, bufio.NewReader(c), slicesOf("200 hello", 200)...)
	})
	t.Run("a byte in a record", func(t *testing.T) {
		c := dial()
		for i := range len(getHello) {
			_, _ = io.WriteString(c, getHello[i:i+1])
		}
		hear(t, bufio.NewReader(c), "200 hello")
	})
	t.Run("several records at once", func(t *testing.T) {
		c, wire := corked(t, l)
		for range 5 {
			_, _ = io.WriteString(c, getHello)
		}
		wire.flush(1 << 20)
		hear(t, bufio.NewReader(c), slicesOf("200 hello", 5)...)
	})
	t.Run("a record in pieces", func(t *testing.T) {
		c, wire := corked(t, l)
		r := bufio.NewReader(c)
		for range 2 { // also after a rest
			_, _ = io.WriteString(c, getHello)
			wire.flush(1)
			hear(t, r, "200 hello")
		}
	})
	t.Run("a body, and one that nobody reads", func(t *testing.T) {
		c := dial()
		r := bufio.NewReader(c)
		body := strings.Repeat("x", 100_000)
		fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		hear(t, r, fmt.Sprintf("200 POST %d %q <nil> map[]", len(body), body))
		fmt.Fprintf(c, "POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		hear(t, r, "200 no")
		if _, err := r.ReadByte(); err != io.EOF { // what is above the connection was told
			t.Errorf("after the last answer: %v", err)
		}
	})
	t.Run("large answers", func(t *testing.T) {
		c := dial()
		_, _ = io.WriteString(c, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		hear(t, bufio.NewReader(c), "200 "+strings.Repeat("x", outSize)+strings.Repeat("y", 2*outSize))
	})
}

func slicesOf(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

// corkedWire keeps what is written to it.
type corkedWire struct {
	*net.TCPConn
	corks bool
	kept  bytes.Buffer
}

func (w *corkedWire) Write(p []byte) (int, error) {
	if w.corks {
		return w.kept.Write(p)
	}
	return w.TCPConn.Write(p)
}

// flush sends what was kept in pieces of a size.
func (w *corkedWire) flush(size int) {
	for w.kept.Len() > 0 {
		_, _ = w.TCPConn.Write(w.kept.Next(size))
		time.Sleep(100 * time.Microsecond) // so that most come by themselves; whatever does is to be right
	}
}

// corked connects over a corkedWire.
func corked(t *testing.T, l net.Listener) (*tls.Conn, *corkedWire) {
	t.Helper()
	wire := &corkedWire{TCPConn: connect(t, l)}
	c := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	wire.corks = true
	return c, wire
}

// TestSecuredRest has a connection hold no memory while it waits, also where a part of a record
// has come, and miss nothing that has.
func TestSecuredRest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	wire := &corkedWire{TCPConn: connect(t, l)}
	client := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	s := NewServer(http.HandlerFunc(script), Options{Log: zap.NewNop()})
	config := &tls.Config{Certificates: []tls.Certificate{testkit.NewAuthority(t).Pair(t, "a.example")}}
	c := s.newConn(near, &Entrance{TLS: config}, nil)
	c.waits(time.Now())
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	if !c.shakeHands() || <-shaken != nil {
		t.Fatal("no handshake")
	}
	try := func() (came bool) {
		_ = c.raw.Control(func(fd uintptr) { came = c.tryRecord(fd) })
		return came
	}
	rests := func(when string) {
		t.Helper()
		if try() || c.memory != nil {
			t.Errorf("%s: it does not rest", when)
		}
	}
	rests("at first")
	wire.corks = true
	_, _ = io.WriteString(client, getHello)
	_, _ = wire.TCPConn.Write(wire.kept.Next(10))
	for range 10 {
		rests("with a part of a record")
	}
	wire.flush(1 << 20)
	testkit.Eventually(t, "the whole record has come", try)
	if got := string(c.memory.bytes[:c.tried]); got != getHello {
		t.Errorf("got %q", got)
	}
	c.giveBack()
	rests("after it")
	_ = near.Close()
}

// TestSecuredClientLeaves has a handler notice it.
func TestSecuredClientLeaves(t *testing.T) {
	for name, leave := range map[string]func(*tls.Conn){
		"with a word":    func(c *tls.Conn) { _ = c.Close() },
		"without a word": func(c *tls.Conn) { _ = c.NetConn().Close() },
		"by a reset":     func(c *tls.Conn) { _ = c.NetConn().(*net.TCPConn).SetLinger(0); _ = c.NetConn().Close() },
	} {
		t.Run(name, func(t *testing.T) {
			began, noticed := make(chan struct{}), make(chan struct{})
			dial, _, _, _ := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(began)
				for r.Context().Err() == nil {
					w.(*Response).Look()
					time.Sleep(time.Millisecond)
				}
				close(noticed)
			}), nil)
			c := dial()
			_, _ = io.WriteString(c, getHello)
			<-began
			leave(c)
			select {
			case <-noticed:
			case <-time.After(testkit.Patience):
				t.Fatal("nobody notices")
			}
		})
	}
}

// TestSecuredDetach has a handler take a connection over.
func TestSecuredDetach(t *testing.T) {
	dial, _, _, _ := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		_, _ = io.Copy(c, io.MultiReader(bytes.NewReader(early), c))
		_ = c.(interface{ CloseWrite() error }).CloseWrite()
	}), nil)
	c := dial()
	_, _ = io.WriteString(c, getHello+"early ")
	_, _ = io.WriteString(c, "late")
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "early late" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestSecuredHTTP2 hands connections over as both sides have agreed.
func TestSecuredHTTP2(t *testing.T) {
	turned := make(chan *Turned, 1)
	dial, l, _, _ := overTLS(t, http.HandlerFunc(script), func(o *Options) { o.HTTP2 = func(c *Turned) { turned <- c } })
	c := tls.Client(connect(t, l), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	_, _ = io.WriteString(c, preface+"x")
	_ = c.CloseWrite()
	got := <-turned
	said, err := io.ReadAll(got)
	if string(said) != preface+"x" || err != nil || got.TLS == nil || got.RemoteAddr().String() != c.LocalAddr().String() {
		t.Errorf("it said %q, %v", said, err)
	}
	_ = got.Close()
	other := dial() // over TLS a preface alone is none
	_, _ = io.WriteString(other, preface)
	res, err := http.ReadResponse(bufio.NewReader(other), nil)
	if err != nil || res.StatusCode < 400 {
		t.Errorf("HTTP/2 that nobody has agreed on: %v, %v", res, err)
	}
}

// TestSecuredDrain has a server end between two requests, and in one.
func TestSecuredDrain(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	dial, _, s, seen := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-goOn
		script(w, r)
	}), nil)
	waits := dial()
	<-seen.all // else it is cut in its handshake
	works := dial()
	_, _ = io.WriteString(works, getHello)
	<-began
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	if _, err := waits.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the client that waits hears %v", err)
	}
	close(goOn)
	hear(t, bufio.NewReader(works), "200 hello")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
