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
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
	"tempomat/proxy/connlimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start serves a handler on a loopback address, and returns a function that connects to it.
func start(t *testing.T, h http.HandlerFunc, change func(*Options)) (dial func() *net.TCPConn, s *Server) {
	t.Helper()
	l, s, _ := entered(t, h, Entrance{}, change)
	return func() *net.TCPConn { return connect(t, l) }, s
}

// TestQuietServerReturnsMemory: after many connections have come to rest, the process returns memory to the system.
func TestQuietServerReturnsMemory(t *testing.T) {
	dial, _ := start(t, script, nil)
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	for range manyRested {
		c := dial()
		ask(t, c, bufio.NewReader(c), getHello)
	}
	testkit.Eventually(t, "the memory is returned", func() bool {
		runtime.ReadMemStats(&now)
		return now.NumForcedGC > before.NumForcedGC
	})
}

// newServer makes a Server. Options that are missing get defaults that allow everything, except that no peer
// may name its client.
func newServer(h http.Handler, o Options) *Server {
	if o.Context == nil {
		o.Context = func(ctx context.Context, _ net.Conn) context.Context { return ctx }
	}
	if o.Table == nil {
		o.Table = connlimit.New(time.Now(), 10_000)
	}
	if o.Peer == nil {
		o.Peer = peerOf
	}
	if o.Stepped == nil {
		o.Stepped = func(Step, Result, string, error) {}
	}
	if o.Refused == nil {
		o.Refused = func() {}
	}
	return NewServer(h, o)
}

// peerOf is the address of a peer that isn't trusted.
func peerOf(remote string) (netip.Addr, bool) {
	at, _ := netip.ParseAddrPort(remote) // a pipe has no address
	return at.Addr(), false
}

// trust makes all peers trusted proxies.
func trust(o *Options) {
	o.Peer = func(remote string) (netip.Addr, bool) { peer, _ := peerOf(remote); return peer, true }
}

// entering returns a connection that has a place.
func (s *Server) entering(c net.Conn, e *Entrance) *conn {
	x := s.newConn(c, e)
	x.enter(c.RemoteAddr().String())
	return x
}

// TestTargets checks what a handler sees of a request's target.
func TestTargets(t *testing.T) {
	dial, _ := start(t, script, nil)
	for line, want := range map[string]string{
		"GET /":                              `GET /|a||/|`,
		"GET /?":                             `GET /?|a||/|`,
		"GET /b//../%41+?c=%zz&d;e?":         `GET /b//../%41+?c=%zz&d;e?|a||/b//../A+|c=%zz&d;e?`,
		"GET //b/c":                          `GET //b/c|a||//b/c|`,
		"GET http://B:1/c?d":                 `GET http://B:1/c?d|B:1|B:1|/c|d`,
		"GET HTTPS://b":                      `GET HTTPS://b|b|b||`,
		"OPTIONS *":                          `OPTIONS *|a||*|`,
		"CONNECT b:1":                        `CONNECT b:1|b:1|b:1||`,
		"WHATEVER /\xe4":                     "WHATEVER /\xe4|a||/\xe4|",
		"GET /" + strings.Repeat("x", 20000): "GET /" + strings.Repeat("x", 20000) + "|a||/" + strings.Repeat("x", 20000) + "|",
	} {
		c := dial()
		_, _ = io.WriteString(c, line+" HTTP/1.1\r\nHost: a\r\nx-y: 1\r\nAccept: b\r\nX-Y: 2\r\nConnection: close\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		body, _ := io.ReadAll(res.Body)
		if got, want := string(body), want+` map["Accept":["b"] "Connection":["close"] "Host":["a"] "X-Y":["1" "2"]]`; got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

// TestNothingIsServedOnceClosed: the server closes a connection between two requests that came
// together.
func TestNothingIsServedOnceClosed(t *testing.T) {
	s := newServer(http.HandlerFunc(script), Options{Log: zap.NewNop()})
	near, far := net.Pipe()
	defer far.Close()
	c := s.entering(near, new(Entrance))
	c.waits(time.Now())
	c.in.Resume(near, []byte("GET / HTTP/1.1\r\n"), len("GET / HTTP/1.1\r\n"))
	c.cutIdle(time.Now())
	if c.await() != came || c.work() {
		t.Error("the second request is served, whose answer nobody gets")
	}
}

// TestLook: Look notices a client that closes one half of the connection or both, even if the
// client sent more before.
func TestLook(t *testing.T) {
	looks, looked := make(chan bool), make(chan bool)
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.(*Response).Look()
		if r.Context().Err() != nil {
			t.Error("it left before it did")
		}
		looks <- true
		leaves := <-looks
		for i := 0; r.Context().Err() == nil && (leaves || i < 10); i++ {
			w.(*Response).Look()
			time.Sleep(time.Millisecond)
		}
		looked <- r.Context().Err() != nil
	}
	dial, _ := start(t, handler, nil)
	secure, _, _, _ := overTLS(t, http.HandlerFunc(handler), nil)
	plain := func() net.Conn { return dial() }
	overTLS := func() net.Conn { return secure() }
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0); _ = c.Close() }
	for how, tc := range map[string]struct {
		dial  func() net.Conn
		leave func(c net.Conn) // nil: the client stays
	}{
		"half":                {plain, func(c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() }},
		"whole":               {plain, func(c net.Conn) { _ = c.Close() }},
		"reset":               {plain, reset},
		"not":                 {plain, nil},
		"TLS, with a word":    {overTLS, func(c net.Conn) { _ = c.Close() }},
		"TLS, without a word": {overTLS, func(c net.Conn) { _ = c.(*tls.Conn).NetConn().Close() }},
		"TLS, by a reset":     {overTLS, func(c net.Conn) { reset(c.(*tls.Conn).NetConn()) }},
		"TLS, not":            {overTLS, nil},
	} {
		c := tc.dial()
		_, _ = io.WriteString(c, getHello+"more")
		<-looks
		if tc.leave != nil {
			tc.leave(c)
		}
		looks <- tc.leave != nil
		select {
		case left := <-looked:
			testkit.Same(t, tc.leave != nil, left, "%s: it left", how)
		case <-time.After(testkit.Patience):
			t.Fatalf("%s: nobody notices", how)
		}
	}
}

// TestPatience: a connection whose client takes too long is closed on time.
func TestPatience(t *testing.T) {
	const header, idle = 10 * time.Second, 40 * time.Second
	request := "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, tc := range map[string]struct {
		says []string
		want time.Duration
	}{
		"says nothing":        {nil, header},
		"half a head":         {[]string{request[:9]}, header + drainSilence},
		"waits":               {[]string{request}, idle},
		"half a second head":  {[]string{request, request[:9]}, header + drainSilence},
		"after a second one":  {[]string{request, request}, idle},
		"an empty line alone": {[]string{request, "\r\n"}, header},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(http.HandlerFunc(script), Options{Header: header, Idle: idle, MaxHead: 1 << 10, Log: zap.NewNop()})
				l := testkit.NewPipes()
				var all sync.WaitGroup
				all.Go(func() { _ = s.Serve(l, Entrance{}) })
				c := piped(t, l)
				var from time.Time
				hears := make(chan time.Time)
				go func() {
					_, _ = io.Copy(io.Discard, c)
					hears <- time.Now()
				}()
				from = time.Now()
				for _, text := range tc.says {
					time.Sleep(5 * time.Second)
					from = time.Now()
					_, _ = io.WriteString(c, text)
				}
				if took := (<-hears).Sub(from); took < tc.want || took > tc.want+2*restAfter {
					t.Errorf("closed after %s, want %s", took, tc.want)
				}
				testkit.Must(t, s.Shutdown(context.Background()))
				all.Wait()
			})
		})
	}
}

// TestShutdown: Shutdown waits for the requests that are being served, and for nothing else.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
			script(w, r)
		}), Options{Header: time.Hour, Idle: time.Hour, MaxHead: 1 << 10, Log: zap.NewNop()})
		l := testkit.NewPipes()
		var all sync.WaitGroup
		all.Go(func() { _ = s.Serve(l, Entrance{}) })
		silent, busy := piped(t, l), piped(t, l)
		heard := make(chan string, 2)
		for _, c := range []net.Conn{silent, busy} {
			all.Go(func() {
				b, _ := io.ReadAll(c)
				heard <- string(b)
			})
		}
		_, _ = io.WriteString(busy, "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n")
		synctest.Wait()
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Shutdown(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after a second: %v", err)
		}
		testkit.Same(t, "", <-heard, "who says nothing hears")
		testkit.Must(t, s.Shutdown(context.Background()))
		if got := <-heard; !strings.HasSuffix(got, "hello") {
			t.Errorf("who is served hears %q", got)
		}
		all.Wait()
	})
}

// piped connects in memory.
func piped(t *testing.T, l *testkit.Pipes) net.Conn {
	t.Helper()
	c, err := l.Dial(t.Context())
	testkit.Must(t, err)
	return c
}

// TestHalfAnAnswer: if a handler or the end of the server breaks off an answer, the client gets the first part and
// can see that it is incomplete. If the end of the connection marks the end of the body, the connection is reset.
func TestHalfAnAnswer(t *testing.T) {
	const old, unread = "GET %s HTTP/1.0\r\nHost: a\r\n\r\n", "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nmore"
	begun, anyDate := make(chan struct{}), regexp.MustCompile(`Date: [^\r]+`)
	script := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic("this is a bug")
		}
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/wait":
			close(begun)
			<-r.Context().Done()
		}
	}
	dial, s := start(t, script, nil)
	secure, _, _, _ := overTLS(t, http.HandlerFunc(script), nil)
	for _, tc := range []struct {
		name, asks, path string
		dial             func() net.Conn
		want             string
		resets           bool
	}{
		{"HTTP/1.0", old, "/abort", func() net.Conn { return dial() }, "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nhalf", true},
		{"HTTP/1.0, whole", old, "/", func() net.Conn { return dial() }, "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nhalf", false},
		{"HTTP/1.0, TLS", old, "/abort", func() net.Conn { return secure() }, "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nhalf", true},
		{"HTTP/1.0, TLS, whole", old, "/", func() net.Conn { return secure() }, "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nhalf", false},
		{"unread", unread, "/abort", func() net.Conn { return dial() }, "HTTP/1.1 200 OK\r\nDate: now\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n4\r\nhalf\r\n", false},
		{"a bug", unread, "/panic", func() net.Conn { return dial() }, "HTTP/1.1 500 Internal Server Error\r\nDate: now\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", false},
		{"HTTP/1.0, the server ends", old, "/wait", func() net.Conn { return dial() }, "HTTP/1.1 200 OK\r\nDate: now\r\nConnection: close\r\n\r\nhalf", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.dial()
			defer c.Close()
			fmt.Fprintf(c, tc.asks, tc.path)
			if tc.path == "/wait" {
				<-begun
				_ = s.Close()
			}
			got, err := io.ReadAll(c)
			if got = anyDate.ReplaceAll(got, []byte("Date: now")); string(got) != tc.want {
				t.Errorf("got %q", got)
			}
			if reset := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF); reset != tc.resets || !reset && err != nil {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// trap is a connection that panics when it is read after a head.
type trap struct {
	net.Conn
	head string
}

func (c *trap) Read(p []byte) (int, error) {
	if c.head == "" {
		panic("trapped")
	}
	n := copy(p, c.head)
	c.head = c.head[n:]
	return n, nil
}

// TestPanics: a panic ends only its own connection, and is logged once.
func TestPanics(t *testing.T) {
	choice := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { panic("trapped") }}
	for name, tc := range map[string]struct {
		entrance Entrance
		head     string
		traps    bool // whether reading panics
	}{
		"a head":           {traps: true},
		"a body":           {traps: true, head: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"},
		"a PROXY header":   {entrance: Entrance{Proxied: true}, traps: true},
		"of a certificate": {entrance: Entrance{TLS: choice}},
	} {
		t.Run(name, func(t *testing.T) {
			core, logged := observer.New(zap.ErrorLevel)
			o := Options{Log: zap.New(core)}
			trust(&o)
			s := newServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				read := make(chan error)
				go func() { // on another goroutine, like an upload
					_, err := io.ReadAll(r.Body)
					read <- err
				}()
				if <-read == nil {
					t.Error("the body came to its end")
				}
			}), o)
			near, far := net.Pipe()
			defer near.Close()
			if tc.traps {
				far = &trap{far, tc.head}
			}
			s.accept(far, &tc.entrance)
			if tc.entrance.TLS != nil {
				near = tls.Client(near, &tls.Config{InsecureSkipVerify: true})
			}
			_, _ = io.ReadAll(near) // until the connection is closed
			testkit.Eventually(t, "no connection is left", func() bool {
				n := 0
				s.conns.Each(func(*conn) { n++ })
				return n == 0
			})
			testkit.Same(t, 1, logged.FilterMessage("a connection's goroutine panicked").Len(), "panics logged in %v", logged.All())
		})
	}
}

// TestPanicDuringUpload: a handler panics while another of its goroutines asks the client for the body.
func TestPanicDuringUpload(t *testing.T) {
	asks := make(chan bool)
	dial, _ := start(t, func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			defer func() { asks <- true }()
			_, _ = r.Body.Read(make([]byte, 1))
		}()
		panic("a fault")
	}, nil)
	c := dial()
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
	for br, line := bufio.NewReader(c), ""; !strings.Contains(line, " 500 "); { // a 100 may come first
		var err error
		line, err = br.ReadString('\n')
		testkit.Must(t, err)
	}
	_ = c.Close()
	<-asks
	p := newPeer(t, dial())
	p.ask(1, false, to("POST", "/", "expect", "100-continue")...)
	for p.head(1)[":status"] != "500" {
	}
	<-asks
}

// TestDetach takes over a connection, with the bytes that were read from it, and without its earlier deadlines,
// which have passed. The server no longer waits for the connection.
func TestDetach(t *testing.T) {
	handler := func(w http.ResponseWriter, _ *http.Request) {
		past := time.Unix(1, 0)
		_, _ = w.(*Response).SetWriteDeadline(past), w.(*Response).SetReadDeadline(past)
		c, early, err := w.(*Response).Detach()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			_, _ = io.Copy(c, io.MultiReader(bytes.NewReader(early), c))
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		}()
		if _, _, err := w.(*Response).Detach(); !errors.Is(err, http.ErrHijacked) {
			panic("it was given away twice")
		}
	}
	dial, plain := start(t, handler, nil)
	dialTLS, _, secure, _ := overTLS(t, http.HandlerFunc(handler), nil)
	for c, s := range map[interface {
		net.Conn
		CloseWrite() error
	}]*Server{dial(): plain, dialTLS(): secure} {
		_, _ = io.WriteString(c, getHello+"early ")
		_, _ = io.WriteString(c, "late")
		got := make([]byte, len("early late"))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "early late" {
			t.Errorf("%T: %q, %v", c, got, err)
		}
		testkit.Must(t, s.Shutdown(t.Context())) // the connection no longer belongs to the server
		_ = c.CloseWrite()
		if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
			t.Errorf("%T: then %q, %v", c, rest, err)
		}
	}
}

// TestPlaceOfOneThatIsGivenAway: a connection that was taken over counts as idle until its handler
// returns.
func TestPlaceOfOneThatIsGivenAway(t *testing.T) {
	table := connlimit.New(time.Now(), 1)
	dial, _ := start(t, func(w http.ResponseWriter, _ *http.Request) {
		if table.Shed() {
			t.Error("it counts as idle during a request")
		}
		_, _, err := w.(*Response).Detach()
		testkit.Must(t, err)
		if !table.Shed() {
			t.Error("it doesn't count as idle")
		}
	}, func(o *Options) { o.Table = table })
	c := dial()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	_, _ = io.Copy(io.Discard, c) // until it is closed
	testkit.Same(t, 0, table.Stats(0).Open, "open connections")
}
