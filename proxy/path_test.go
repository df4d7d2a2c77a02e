package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/backend"
	"tempomat/proxy/front"
)

// BenchmarkPath is a small page through the proxy, without a kernel: client and backend are
// connections in memory that never wait. So it is what the code itself takes, and what it
// allocates.
func BenchmarkPath(b *testing.B) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		b.Run(m.String(), func(b *testing.B) {
			ask := wireless(b, m)
			b.ReportAllocs()
			b.ResetTimer()
			ask(b.N)
		})
	}
}

// TestPathAllocatesNothing counts what is allocated for a GET: less than once. Several
// requests share the memory of their strings, and the ticker beside them needs some.
func TestPathAllocatesNothing(t *testing.T) {
	if testkit.RaceDetector {
		t.Skip("the race detector has pools lose what they keep")
	}
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		ask := wireless(t, m)
		ask(100)
		const n = 2000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ask(n)
		runtime.ReadMemStats(&after)
		if got := float64(after.Mallocs-before.Mallocs) / n; got >= 1 {
			t.Errorf("%v: %.2f allocations for a request", m, got)
		}
	}
}

// wireless is a proxy without a kernel, which is to be asked so many times over a connection.
func wireless(t testing.TB, m limiter.Mode) (ask func(times int)) {
	dial := func(context.Context) (net.Conn, error) {
		return &scripted{says: benchResponse(), after: true}, nil
	}
	upstream := &Upstream{timeout: time.Minute, pool: backend.NewPool(dial, "", time.Minute), log: zap.NewNop()}
	t.Cleanup(upstream.Close)
	h := benchHandler(t, m, upstream)
	return func(times int) {
		client := &scripted{says: []byte(benchRequest), left: times, done: make(chan struct{})}
		s := front.NewServer(h, front.Options{
			Header: time.Minute, Idle: time.Minute, MaxHead: maxHeader, Log: zap.NewNop(),
			Context: func(ctx context.Context, c net.Conn) context.Context { return connContext(ctx, c, &closing{}) },
		})
		if err := s.Serve(&once{conn: client, done: client.done, server: s}, front.Entrance{}); !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		if least := times * len(benchBody); client.written < least {
			t.Fatalf("%d bytes were answered, want more than %d", client.written, least)
		}
	}
}

// scripted is a connection whose other side says always the same: so many times, or once
// after each thing that it was told.
type scripted struct {
	net.Conn
	says    []byte
	rest    []byte
	left    int
	after   bool
	written int
	done    chan struct{} // closed when all was said
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.left--; c.left < 0 {
			close(c.done)
			return 0, io.EOF
		}
		c.rest = c.says
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error) {
	c.written += len(p)
	if c.after {
		c.left++
	}
	return len(p), nil
}

func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }

// once is a listener of one connection, and ends the server when that is done.
type once struct {
	net.Listener
	conn   net.Conn
	done   <-chan struct{}
	server *front.Server
}

func (l *once) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, errors.Join(l.server.Shutdown(context.Background()), net.ErrClosed)
}

func (l *once) Close() error { return nil }
