package backend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestTalkWithoutRoom: if the kernel has no room for the whole head, the rest is sent while the
// backend reads.
func TestTalkWithoutRoom(t *testing.T) {
	const room = 16 << 10
	long := strings.Repeat("x", 64*room)
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		_ = c.(*net.TCPConn).SetReadBuffer(room)
		for range 2 {
			q, err := http.ReadRequest(br)
			if err != nil || len(q.Header.Get("Long")) != len(long) {
				t.Errorf("%v of %d came, %v", len(q.Header.Get("Long")), len(long), err)
				return
			}
			_, _ = c.Write([]byte(hello))
		}
	})
	dial := s.dial
	s.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err == nil {
			err = c.(*net.TCPConn).SetWriteBuffer(room)
		}
		return c, err
	}
	p := s.pool(0)
	for range 2 {
		r := get()
		r.Fields = fields("Long", long)
		if status, body, err := do(p, r); status != 200 || body != "hello" || err != nil {
			t.Errorf("%d %q %v", status, body, err)
		}
	}
	testkit.Same(t, 1, s.accepted(), "connections")
}

// TestTalkFindsWhatNobodyAskedFor: if the backend sends something on an idle connection, the connection isn't
// used, and no client gets these bytes.
func TestTalkFindsWhatNobodyAskedFor(t *testing.T) {
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		once(hello, nil)(c, br)
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"))
		_, _ = br.ReadByte() // until the pool closes the connection
	}, answers(hello))
	p := s.pool(0)
	warm(t, p)
	testkit.Eventually(t, "it has come", func() bool { return p.aliveOnes() == 0 })
	if _, body, err := do(p, get()); body != "hello" || err != nil || s.accepted() != 2 {
		t.Errorf("%q %v over %d connections", body, err, s.accepted())
	}
}

// TestTalkOutlastsAnEarlierDeadline: when the deadline of an earlier request passes, the current request
// continues.
func TestTalkOutlastsAnEarlierDeadline(t *testing.T) {
	var late time.Duration
	s := serve(t, func(c net.Conn, br *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			time.Sleep(late)
			_, _ = c.Write([]byte(hello))
		}
	})
	p := s.pool(time.Hour)
	warm(t, p)
	c := p.idle[0]
	c.deadline = time.Now().Add(20 * time.Millisecond)
	testkit.Must(t, c.SetReadDeadline(c.deadline))
	late = 60 * time.Millisecond
	if _, body, err := do(p, get()); body != "hello" || err != nil || s.accepted() != 1 {
		t.Errorf("%q %v over %d connections", body, err, s.accepted())
	}
}

// TestTalkBeginsAsAnEarlierDeadlinePasses: an earlier deadline that passes before a request is sent doesn't
// make the request late.
func TestTalkBeginsAsAnEarlierDeadlinePasses(t *testing.T) {
	s := serve(t, answers(hello))
	p := s.pool(2 * time.Hour)
	warm(t, p)
	c := p.idle[0]
	c.deadline = time.Now().Add(time.Hour) // in the future at first; then it passes
	testkit.Must(t, c.SetReadDeadline(time.Unix(1, 0)))
	post := get()
	post.Method = http.MethodPost
	if _, body, err := do(p, post); body != "hello" || err != nil || s.accepted() != 1 {
		t.Errorf("%q %v over %d connections", body, err, s.accepted())
	}
}

// TestAResetIsNoEnd: a reset doesn't count as the end of a body without a length, whichever call sees it
// first.
func TestAResetIsNoEnd(t *testing.T) {
	for name, sees := range map[string]func(a *Answer) bool{
		"a look":  func(a *Answer) bool { return !a.Waits() },
		"a write": func(a *Answer) bool { _, err := a.conn.Write([]byte("x")); return err != nil },
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			s := serve(t, func(c net.Conn, br *bufio.Reader) {
				once("HTTP/1.1 200 OK\r\n\r\nhalf", nil)(c, br)
				<-read
				_ = c.(*net.TCPConn).SetLinger(0)
			})
			a, err := s.pool(0).Do(new(Call), get())
			testkit.Must(t, err)
			defer a.Close()
			b := make([]byte, 4)
			if _, err := io.ReadFull(a, b); err != nil || string(b) != "half" {
				t.Fatalf("%q, %v", b, err)
			}
			close(read)
			testkit.Eventually(t, "the reset is seen", func() bool { return sees(a) })
			if _, err := a.Read(b); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the body ends with %v", err)
			}
		})
	}
}

// TestPauseAfterAChunk: the backend pauses after a chunk whose end isn't in the Buffer yet, or in the middle of the next
// chunk's size. A size that never ends doesn't fill the memory.
func TestPauseAfterAChunk(t *testing.T) {
	const size = 40_000 // more than the Buffer holds
	for end, waits := range map[string]bool{"\r\n": true, "\r\n5": true, "\r\n" + strings.Repeat("1", 1<<20): false} {
		over := make(chan struct{})
		s := serve(t, once(fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s%s", size, strings.Repeat("x", size), end), over))
		a, err := s.pool(0).Do(new(Call), get())
		testkit.Must(t, err)
		_, err = io.ReadFull(a, make([]byte, size))
		testkit.Must(t, err)
		testkit.Eventually(t, "the end of the chunk is seen", func() bool { return a.Waits() == waits && a.buffer.Buffered() > 0 })
		if n := a.buffer.Buffered(); n > memorySize {
			t.Errorf("the Buffer holds %d bytes", n)
		}
		close(over)
		testkit.Must(t, a.Close())
	}
}

// TestTalkIsLate: talk waits no longer than allowed for a backend that doesn't answer.
func TestTalkIsLate(t *testing.T) {
	s := serve(t, func(_ net.Conn, br *bufio.Reader) { _, _ = br.WriteTo(io.Discard) })
	if _, _, err := do(s.pool(20*time.Millisecond), get()); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want that it was late", err)
	}
}
