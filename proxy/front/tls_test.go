package front

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// steps records how connections began.
type steps struct{ all chan string }

func (s *steps) note(step Step, result Result, remote string, err error) {
	s.all <- fmt.Sprintf("%s %s", step, result)
}

// entered serves a handler at an entrance on the loopback.
func entered(t *testing.T, h http.Handler, e Entrance, change func(*Options)) (l net.Listener, s *Server, seen *steps) {
	t.Helper()
	seen = &steps{all: make(chan string, 1000)}
	o := Options{Header: time.Minute, Idle: time.Minute, MaxHead: 64 << 10, Log: zap.NewNop(), Stepped: seen.note}
	if change != nil {
		change(&o)
	}
	s = newServer(h, o)
	l = testkit.Listen(t)
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

// overTLS serves a handler over TLS, and returns a function that connects to it.
func overTLS(t *testing.T, h http.Handler, change func(*Options)) (dial func() *tls.Conn, l net.Listener, s *Server, seen *steps) {
	t.Helper()
	authority := testkit.NewAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "a.example")}, NextProtos: []string{"h2", "http/1.1"}}
	l, s, seen = entered(t, h, Entrance{TLS: config}, change)
	dial = func() *tls.Conn {
		c := tls.Client(connect(t, l), &tls.Config{RootCAs: authority.Pool, ServerName: "a.example", NextProtos: []string{"http/1.1"}})
		testkit.Must(t, c.Handshake())
		return c
	}
	return dial, l, s, seen
}

func connect(t *testing.T, l net.Listener) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	testkit.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(testkit.Patience))
	return c.(*net.TCPConn)
}

// hear reads answers and compares them.
func hear(t *testing.T, r *bufio.Reader, want ...string) {
	t.Helper()
	for _, w := range want {
		res, err := http.ReadResponse(r, nil)
		testkit.Must(t, err)
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

// TestSecuredRequests sends requests over TLS in pieces of many sizes.
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
		hear(t, bufio.NewReader(c), slices.Repeat([]string{"200 hello"}, 200)...)
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
		hear(t, bufio.NewReader(c), slices.Repeat([]string{"200 hello"}, 5)...)
	})
	t.Run("a record in pieces", func(t *testing.T) {
		c, wire := corked(t, l)
		r := bufio.NewReader(c)
		for range 2 { // also after another goroutine has taken over
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
		if _, err := r.ReadByte(); err != io.EOF { // both TLS and the connection below have ended
			t.Errorf("after the last answer: %v", err)
		}
	})
	t.Run("large answers", func(t *testing.T) {
		c := dial()
		_, _ = io.WriteString(c, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
		hear(t, bufio.NewReader(c), "200 "+strings.Repeat("x", outSize)+strings.Repeat("y", 2*outSize))
	})
}

// corkedWire can keep what is written instead of sending it.
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

// flush sends what was kept, in pieces of the given size.
func (w *corkedWire) flush(size int) {
	for w.kept.Len() > 0 {
		_, _ = w.TCPConn.Write(w.kept.Next(size))
		time.Sleep(100 * time.Microsecond) // lets most pieces come alone, but the test doesn't depend on it
	}
}

// corked connects over a corkedWire.
func corked(t *testing.T, l net.Listener) (*tls.Conn, *corkedWire) {
	t.Helper()
	wire := &corkedWire{TCPConn: connect(t, l)}
	c := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	testkit.Must(t, c.Handshake())
	wire.corks = true
	return c, wire
}

// TestSecuredRest: a waiting connection holds no memory, even after a part of a record, and loses no
// data. A new goroutine waits with a small stack.
func TestSecuredRest(t *testing.T) {
	l := testkit.Listen(t)
	wire := &corkedWire{TCPConn: connect(t, l)}
	client := tls.Client(wire, &tls.Config{InsecureSkipVerify: true})
	near, err := l.Accept()
	testkit.Must(t, err)
	defer near.Close()
	s := newServer(http.HandlerFunc(script), Options{Log: zap.NewNop()})
	config := &tls.Config{Certificates: []tls.Certificate{testkit.NewAuthority(t).Pair(t, "a.example")}}
	c := s.entering(near, &Entrance{TLS: config})
	c.waits(time.Now())
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	if !c.handshake() || <-shaken != nil {
		t.Fatal("no handshake")
	}
	rests := func(when string) {
		t.Helper()
		_ = near.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.readFirst(); !errors.Is(err, os.ErrDeadlineExceeded) || c.memory != nil {
			t.Errorf("%s: %v, or it holds memory", when, err)
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
	_ = c.SetReadDeadline(time.Time{})
	n, err := c.readFirst()
	testkit.Must(t, err)
	_, err = io.ReadFull(c, c.memory[n:len(getHello)])
	testkit.Must(t, err)
	testkit.Same(t, getHello, string(c.memory[:len(getHello)]), "what came")
	c.giveBack()
	rests("after it")
	c.wakeNow()
	testkit.Same(t, true, c.rest(), "a new goroutine waits")
	c.Conn = nil // so that reading TLS, which needs more stack, panics
	rests("in a new goroutine")
}

// counted counts the writes.
type counted struct {
	net.Conn
	writes *atomic.Int32
}

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// TestSecuredTogether: the head of an answer and its body are one record, and therefore one system call.
func TestSecuredTogether(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	var writes atomic.Int32
	s := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writes.Store(0)
		w.Header().Set("Content-Length", "12000")
		_, _ = w.Write(make([]byte, 12000))
	}), Options{Log: zap.NewNop(), MaxHead: 4 << 10})
	config := &tls.Config{DynamicRecordSizingDisabled: true, Certificates: []tls.Certificate{testkit.NewAuthority(t).Pair(t, "a.example")}}
	c := s.entering(counted{near, &writes}, &Entrance{TLS: config})
	c.waits(time.Now())
	s.conns.Add(&c.RosterEntry, c)
	go c.start()
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})
	if status, body := ask(t, client, bufio.NewReader(client), getHello); status != http.StatusOK || len(body) != 12000 || writes.Load() != 1 {
		t.Errorf("%d, %d bytes in %d writes", status, len(body), writes.Load())
	}
	testkit.Must(t, s.Close())
}

// TestSecuredHTTP2: HTTP/2 is spoken only if it was negotiated.
func TestSecuredHTTP2(t *testing.T) {
	dial, l, _, _ := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Remote", r.RemoteAddr)
		w.Header().Set("Tls", fmt.Sprint(r.TLS != nil))
	}), nil)
	c := tls.Client(connect(t, l), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	p := newPeer(t, c)
	p.get(1, "/")
	if h := p.head(1); h["remote"] != c.LocalAddr().String() || h["tls"] != "true" {
		t.Errorf("it got %v", h)
	}
	other := dial() // over TLS a preface alone doesn't begin HTTP/2
	_, _ = io.WriteString(other, preface)
	res, err := http.ReadResponse(bufio.NewReader(other), nil)
	if err != nil || res.StatusCode < 400 {
		t.Errorf("HTTP/2 that nobody has agreed on: %v, %v", res, err)
	}
}

// TestTurnsOfAny: no more handshakes compute than allowed, and each waiting one gets its turn. Until then,
// every other address gets at most one turn for each turn of the handshake's address.
func TestTurnsOfAny(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			most := rapid.IntRange(1, 4).Draw(r, "most")
			turns := newTurns(most)
			var mu sync.Mutex
			var order []string
			computing := 0
			waits := map[string]int{}
			for range rapid.IntRange(1, 40).Draw(r, "steps") {
				if computing > 0 && rapid.Bool().Draw(r, "done") {
					computing--
					turns.done()
				} else {
					of := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "of")
					waits[of]++
					go func() {
						turns.await(of)
						mu.Lock()
						defer mu.Unlock()
						order = append(order, of)
						computing++
						waits[of]--
					}()
				}
				synctest.Wait()
				idle := most - computing
				waiting := waits["a"] + waits["b"] + waits["c"]
				if idle < 0 || idle > 0 && waiting > 0 {
					r.Fatalf("%d of %d compute, %d wait", computing, most, waiting)
				}
			}
			before := len(order)
			distinct := 0
			for _, n := range waits {
				distinct += min(n, 1)
			}
			for computing > 0 {
				computing--
				turns.done()
				synctest.Wait()
			}
			if first := slices.Clone(order[before:min(before+distinct, len(order))]); len(slices.Compact(slices.Sorted(slices.Values(first)))) != distinct {
				r.Fatalf("%q come first, of %d addresses", first, distinct)
			}
			if waits["a"]+waits["b"]+waits["c"] > 0 || len(turns.lines) > 0 {
				r.Fatalf("%v wait for ever", waits)
			}
		})
	})
}

// TestSilentHandshakes: clients that begin a handshake and then stay silent hold no turns, so other clients are
// served. Handshakes that fail give their turns back.
func TestSilentHandshakes(t *testing.T) {
	dial, l, s, seen := overTLS(t, http.HandlerFunc(script), nil)
	var silent []net.Conn
	for i := range 50 {
		c := connect(t, l)
		silent = append(silent, c)
		switch i % 3 {
		case 0:
			_, _ = c.Write([]byte{22, 3, 1, 1, 0, 1}) // the beginning of a hello
		case 1: // the whole hello, but no answer to the server's message
			wire := &corkedWire{TCPConn: c}
			go func() {
				_ = tls.Client(wire, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
			}()
		}
	}
	for range 20 {
		_ = dial().Close()
	}
	for _, c := range silent {
		_ = c.Close()
	}
	for range 50 + 20 {
		<-seen.all
	}
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if len(s.turns.taken) > 0 || len(s.turns.lines) > 0 {
		t.Errorf("%d compute at the end, %d wait", len(s.turns.taken), len(s.turns.lines))
	}
}

// TestGoneBeforeItsTurn: the server computes nothing for a client that disconnected while it
// waited.
func TestGoneBeforeItsTurn(t *testing.T) {
	_, l, s, seen := overTLS(t, http.HandlerFunc(script), nil)
	for range cap(s.turns.taken) {
		s.turns.await("busy")
	}
	c := connect(t, l)
	hello := make(chan error, 1)
	go func() { hello <- tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	testkit.Eventually(t, "it waits for its turn", func() bool {
		s.turns.mu.Lock()
		defer s.turns.mu.Unlock()
		return len(s.turns.lines) == 1
	})
	_ = c.Close()
	if <-hello == nil {
		t.Error("it was served before its turn")
	}
	testkit.Eventually(t, "the kernel knows that it has left", func() bool {
		left := false
		s.conns.Each(func(x *conn) { left = hasLeft(x.raw) })
		return left
	})
	s.turns.done()
	testkit.Same(t, "TLS gone", <-seen.all, "it came to")
}

// TestHandshakesThatFail connects clients whose handshakes fail.
func TestHandshakesThatFail(t *testing.T) {
	const plain = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: 36\r\nConnection: close\r\n\r\nBad Request: this port is for HTTPS\n"
	hello := clientHello(t)
	for name, tc := range map[string]struct {
		say    string
		config *tls.Config // configuration of a client that does a handshake; nil: the client sends say
		stay   bool        // whether the client keeps the connection open
		want   Result
		hear   string
	}{
		"HTTP":              {say: getHello, want: ResultPlain, hear: plain},
		"HTTP, long":        {say: "POST / HTTP/1.1\r\nContent-Length: 99999\r\n\r\n" + strings.Repeat("x", 99999), want: ResultPlain, hear: plain},
		"garbage":           {say: "\x00\x01\x02\x03\x04\x05\x06", want: ResultOther},
		"HTTP/2":            {say: preface, want: ResultPlain, hear: plain},
		"nothing":           {want: ResultGone},
		"half a hello":      {say: hello[:len(hello)/2], want: ResultGone},
		"silence":           {stay: true, want: ResultLate},
		"half, and silence": {say: hello[:len(hello)/2], stay: true, want: ResultLate},
		"huge":              {say: "\x16\x03\x01\x3f\xff\x01\x00\xff\x00" + strings.Repeat("\x00", 0x3ffb) + "\x16\x03\x01\x3f\xff" + strings.Repeat("\x00", 0x3fff), stay: true, want: ResultOther},
		"old":               {config: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}, want: ResultNothing},
		"another protocol":  {config: &tls.Config{NextProtos: []string{"imap"}, InsecureSkipVerify: true}, want: ResultNothing},
		"distrust":          {config: &tls.Config{ServerName: "a.example", MaxVersion: tls.VersionTLS12}, want: ResultUnwanted},
	} {
		t.Run(name, func(t *testing.T) {
			_, l, _, seen := overTLS(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("served") }),
				func(o *Options) {
					if tc.want == ResultLate {
						o.Header = 50 * time.Millisecond
					}
				})
			c := connect(t, l)
			if tc.config != nil {
				if err := tls.Client(c, tc.config).Handshake(); err == nil {
					t.Error("the handshake succeeds")
				}
			} else {
				_, _ = io.WriteString(c, tc.say)
			}
			if got := ends(t, c, tc.stay, seen, "TLS "+string(tc.want)); tc.hear != "" && got != tc.hear {
				t.Errorf("the client hears %q, want %q", got, tc.hear)
			}
		})
	}
}

// ends makes a client close its sending side unless stays is set, waits until the server closes the connection,
// and checks the reported result. It returns the bytes that the client received.
func ends(t *testing.T, c *net.TCPConn, stays bool, seen *steps, want string) string {
	t.Helper()
	if !stays {
		_ = c.CloseWrite()
	}
	testkit.Same(t, want, <-seen.all, "the server says")
	heard, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
	return string(heard)
}

// clientHello is the first message of a client.
func clientHello(t *testing.T) string {
	t.Helper()
	near, far := net.Pipe()
	go func() { _ = tls.Client(near, &tls.Config{ServerName: "a.example"}).Handshake() }()
	b := make([]byte, 64<<10)
	n, err := far.Read(b)
	_ = far.Close()
	_ = near.Close()
	testkit.Must(t, err)
	return string(b[:n])
}

// TestSecuredCloseDoesNotWait: the server closes the connection of a client that reads nothing of its answer.
// Package tls alone would wait until it can send the closing alert.
func TestSecuredCloseDoesNotWait(t *testing.T) {
	full := make(chan struct{})
	dial, _, s, _ := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = w.(*Response).SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for piece := make([]byte, 64<<10); ; {
			if _, err := w.Write(piece); err != nil {
				close(full)
				return
			}
		}
	}), nil)
	c := dial()
	_, _ = io.WriteString(c, getHello)
	<-full
	testkit.Must(t, s.Shutdown(t.Context()))
}

// recorder writes TLS 1.3 records that package tls wouldn't write.
type recorder struct {
	net.Conn
	aead cipher.AEAD
	iv   []byte
	seq  uint64
}

// recording does a handshake, and returns a recorder for the records that follow.
func recording(t *testing.T, l net.Listener) *recorder {
	t.Helper()
	var secrets bytes.Buffer
	c := tls.Client(connect(t, l), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, KeyLogWriter: &secrets})
	testkit.Must(t, c.Handshake())
	_, after, _ := strings.Cut(secrets.String(), "CLIENT_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(after)[1])
	testkit.Must(t, err)
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		if os.Getenv("CI") != "" {
			t.Fatal("a CPU that computes AES is needed")
		}
		t.Skip("without AES in the CPU another cipher is taken")
	}
	expand := func(label string, n int) []byte {
		info := append([]byte{0, byte(n), byte(len("tls13 " + label))}, "tls13 "+label+"\x00"...)
		key, err := hkdf.Expand(sha256.New, secret, string(info), n)
		testkit.Must(t, err)
		return key
	}
	block, _ := aes.NewCipher(expand("key", 16))
	aead, _ := cipher.NewGCM(block)
	return &recorder{Conn: c.NetConn(), aead: aead, iv: expand("iv", 12)}
}

// record writes a record of a content type.
func (r *recorder) record(kind byte, content []byte) error {
	nonce := bytes.Clone(r.iv)
	for i, b := range binary.BigEndian.AppendUint64(nil, r.seq) {
		nonce[4+i] ^= b
	}
	r.seq++
	n := len(content) + 1 + r.aead.Overhead()
	head := []byte{23, 3, 3, byte(n >> 8), byte(n)}
	_, err := r.Write(r.aead.Seal(head, nonce, append(bytes.Clone(content), kind), head))
	return err
}

// TestLongMessageAfterHandshake: after the handshake, a client sends a part of another handshake message, which
// package tls would hold until the message is complete.
func TestLongMessageAfterHandshake(t *testing.T) {
	const handshake, data = 22, 23
	for name, before := range map[string]string{"at first": "", "after a request": getHello, "in a head": getHello[:10]} {
		t.Run(name, func(t *testing.T) {
			_, l, _, _ := overTLS(t, http.HandlerFunc(script), nil)
			c := recording(t, l)
			if before != "" {
				_ = c.record(data, []byte(before))
			}
			_ = c.record(handshake, []byte{24, 0, 0xff, 0xff})
			for range 15 {
				if err := c.record(handshake, make([]byte, 4<<10)); err != nil {
					return // the connection is closed
				}
			}
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("it is kept, and waited for the rest")
			}
		})
	}
}

// TestEmptyRecords: a client may send its data in tiny records, also padded ones, but not in between many records
// without data, because these may update keys.
func TestEmptyRecords(t *testing.T) {
	const all = 4000
	for empty, want := range map[int]bool{0: true, 15: false} {
		_, l, _, _ := overTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprint(w, n)
		}), nil)
		c := recording(t, l)
		err := c.record(23, fmt.Appendf(nil, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", all))
		for i := 0; i < all && err == nil; i++ {
			for range empty {
				err = errors.Join(err, c.record(23, nil))
			}
			err = errors.Join(err, c.record(0, append([]byte("x\x17"), make([]byte, i%500)...)))
		}
		n, _ := c.Read(make([]byte, 1))
		if got := err == nil && n > 0; got != want {
			t.Errorf("%d empty records before each byte: served %t, %v", empty, got, err)
		}
	}
}

// TestEmptyRecordsBetweenRequests: the record of a request pays only for itself, although it is read in two parts.
func TestEmptyRecordsBetweenRequests(t *testing.T) {
	_, l, _, _ := overTLS(t, http.HandlerFunc(script), nil)
	c := recording(t, l)
	var err error
	for p, n := make([]byte, 1<<10), 0; n < 2*mostEmpty && err == nil; n++ {
		if err = errors.Join(c.record(23, nil), c.record(23, []byte(getHello))); err == nil {
			_, err = c.Read(p)
		}
	}
	if err == nil {
		t.Error("the connection is still open")
	}
}
