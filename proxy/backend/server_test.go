package backend

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/http1"
)

// server is a backend that runs a script on each connection.
type server struct {
	t     *testing.T
	l     net.Listener
	dial  Dial
	conns sync.WaitGroup
	mu    sync.Mutex
	count int // number of accepted connections
}

// serve runs the scripts, one for each connection. The last script is for all other connections.
func serve(t *testing.T, scripts ...func(c net.Conn, br *bufio.Reader)) *server {
	l := testkit.Listen(t)
	return serveOn(t, l, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	}, scripts...)
}

// serveVirtual is serve in a synctest bubble.
func serveVirtual(t *testing.T, scripts ...func(c net.Conn, br *bufio.Reader)) *server {
	l := testkit.NewPipes()
	return serveOn(t, l, l.Dial, scripts...)
}

func serveOn(t *testing.T, l net.Listener, dial Dial, scripts ...func(c net.Conn, br *bufio.Reader)) *server {
	s := &server{t: t, l: l, dial: dial}
	var accepts sync.WaitGroup
	accepts.Go(func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.count++
			s.mu.Unlock()
			s.conns.Go(func() {
				defer c.Close()
				scripts[min(i, len(scripts)-1)](c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		accepts.Wait()
		s.conns.Wait()
	})
	return s
}

func (s *server) accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// pool returns a Pool whose backend is the server.
func (s *server) pool(timeout time.Duration) *Pool {
	p := NewPool(s.dial, "nameless", timeout)
	p.idleFor = time.Hour // long, so that slow tests find their connections
	s.t.Cleanup(p.Close)
	return p
}

// answers gives all requests the same answer, until the client disconnects.
func answers(text string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		for {
			q, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, q.Body)
			_, _ = io.WriteString(c, text)
		}
	}
}

const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func fields(name, value string) (f http1.Fields) {
	f.Add(name, value)
	return f
}

func get() *Request { return &Request{Method: "GET", Target: "/", Host: "site"} }

// warm sends a request, after which the pool may keep its connection.
func warm(t *testing.T, p *Pool) {
	t.Helper()
	_, _, err := do(p, get())
	testkit.Must(t, err)
}

// do sends a request and reads the whole answer.
func do(p *Pool, r *Request) (status int, body string, err error) {
	var call Call
	a, err := p.Do(&call, r)
	if err != nil {
		return 0, "", err
	}
	defer a.Close()
	b, err := io.ReadAll(a)
	return a.Status, string(b), err
}
