package h2bound

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wire is a connection in memory: what the client sends, in pieces, and what it gets.
type wire struct {
	net.Conn
	sent   [][]byte // the client's, still to come
	got    []byte
	room   int // bytes that it takes before a timeout; -1: any
	closed int
}

func (w *wire) Read(p []byte) (int, error) {
	if w.closed > 0 {
		return 0, net.ErrClosed
	}
	if len(w.sent) == 0 {
		return 0, io.EOF
	}
	n := copy(p, w.sent[0])
	if w.sent[0] = w.sent[0][n:]; len(w.sent[0]) == 0 {
		w.sent = w.sent[1:]
	}
	return n, nil
}

func (w *wire) Write(p []byte) (int, error) {
	if w.closed > 0 {
		return 0, net.ErrClosed
	}
	n := len(p)
	if w.room >= 0 {
		n = min(n, w.room)
		w.room -= n
	}
	w.got = append(w.got, p[:n]...)
	if n < len(p) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

func (w *wire) Close() error {
	w.closed++
	return nil
}

// TestBytesPassUnchanged: both ways, whatever they are and however they are split.
func TestBytesPassUnchanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]string{"", preface[:10], preface, "GET / HTTP/1.1\r\n"}).Draw(t, "begin")
		pieces := append([][]byte{[]byte(begin)}, rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 40), 0, 20).Draw(t, "pieces")...)
		var want []byte
		for _, p := range pieces {
			want = append(want, p...)
		}
		if begin == "" {
			pieces = pieces[1:]
		}
		w := &wire{sent: pieces, room: -1}
		c := New(w, Options{Clients: 100})
		got, err := io.ReadAll(c)
		if errors.Is(err, HeaderTooLong) && bytes.HasPrefix(want, got) {
			return // the one that takes no more than one frame
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read %q, %v, not %q", got, err, want)
		}
		if n, err := c.Write(want); n != len(want) || err != nil || !bytes.Equal(w.got, want) {
			t.Fatalf("wrote %q, %v, not %q", w.got, err, want)
		}
	})
}

// TestFloodClosesOnce: nothing of it is read, the reason is told, and nothing is written after.
func TestFloodClosesOnce(t *testing.T) {
	pings := bytes.Repeat(encode(ping, 0, 0, make([]byte, 8)...), 2*mostControl)
	w := &wire{sent: [][]byte{[]byte(preface), pings}, room: -1}
	var told []Flood
	var c *Conn
	c = New(w, Options{Flooded: func(of net.Conn, why Flood) {
		if of != c {
			t.Error("told of another connection")
		}
		told = append(told, why)
	}})
	p := make([]byte, len(pings))
	if n, err := c.Read(p); n != len(preface) || err != nil {
		t.Fatal(n, err)
	}
	n, err := c.Read(p)
	var why Flood
	if n != 0 || !errors.As(err, &why) || why != Control {
		t.Errorf("read %d, %v", n, err)
	}
	if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, Control) {
		t.Errorf("wrote %d, %v", n, err)
	}
	if _, err := c.Read(p); err == nil {
		t.Error("read after the end")
	}
	if w.closed != 1 || len(told) != 1 || told[0] != Control {
		t.Errorf("closed %d times, told %q", w.closed, told)
	}
}

// TestServersResetsClose: a client that makes the server reset is found out when it writes.
func TestServersResetsClose(t *testing.T) {
	resets := bytes.Repeat(encode(goAway, 0, 0, make([]byte, 8)...), mostResets+1)
	w := &wire{sent: [][]byte{[]byte(preface)}, room: -1}
	c := New(w, Options{})
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Write(resets); n != 0 || !errors.Is(err, Resets) || w.closed != 1 {
		t.Errorf("wrote %d, %v, closed %d times", n, err, w.closed)
	}
}

// TestRestIsWrittenAgain: what a timeout left is not counted twice, wherever it split.
func TestRestIsWrittenAgain(t *testing.T) {
	all := join(encode(data, 0, 1, make([]byte, 30)...), encode(ping, 0, 0, make([]byte, 8)...), encode(data, endStream, 1, make([]byte, 20)...))
	for first := range all {
		for second := range 10 {
			w := &wire{sent: [][]byte{join([]byte(preface), request(0))}, room: first}
			c := New(w, Options{})
			if _, err := io.ReadAll(c); err != nil {
				t.Fatal(err)
			}
			rest := all
			for _, room := range []int{first, second, len(all)} {
				w.room = room
				n, err := c.Write(rest)
				rest = rest[n:]
				if len(rest) == 0 {
					break
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
			}
			if b := c.bounds; b.window != firstWindow-50 || len(b.streams) != 0 || !bytes.Equal(w.got, all) {
				t.Fatalf("split at %d and %d: window %d, streams %v", first, second, b.window, b.streams)
			}
		}
	}
}

// TestSmallDataWaits: each read waits until it is within the budget.
func TestSmallDataWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := encode(data, 0, 1, 0)
		sent := [][]byte{[]byte(preface)}
		for range mostSmallData + 3*smallDataPerSecond {
			sent = append(sent, one)
		}
		c := New(&wire{sent: sent, room: -1}, Options{})
		began := time.Now()
		if n, err := io.Copy(io.Discard, struct{ io.Reader }{c}); n != int64(len(preface)+len(one)*(len(sent)-1)) || err != nil {
			t.Error(n, err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestPlainKeepsNothing(t *testing.T) {
	w := &wire{sent: [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, room: -1}
	c := New(w, Options{})
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	if c.bounds != nil || !c.plain.Load() {
		t.Error("HTTP/1.1 is counted")
	}
}

// halves can be closed for writing.
type halves struct {
	wire
	half int
}

func (h *halves) CloseWrite() error {
	h.half++
	return nil
}

func TestCloseWrite(t *testing.T) {
	h := &halves{}
	if err := New(h, Options{}).CloseWrite(); err != nil || h.half != 1 || h.closed != 0 {
		t.Errorf("%v, closed for writing %d times, at all %d times", err, h.half, h.closed)
	}
	w := &wire{}
	if err := New(w, Options{}).CloseWrite(); err != nil || w.closed != 1 {
		t.Errorf("%v, closed %d times", err, w.closed)
	}
}

func TestUnwrap(t *testing.T) {
	w := &wire{}
	for _, c := range []net.Conn{w, New(w, Options{})} {
		if Unwrap(c) != w {
			t.Error("another connection")
		}
	}
}

func TestListenFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bounded := listen(l, Options{})
	if err := bounded.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := bounded.Accept(); c != nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v, %v", c, err)
	}
}
