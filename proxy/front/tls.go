package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tempomat/proxy/nonblock"
)

// mostHandshake is how many bytes a client may send before its handshake is complete. Today's clients send less
// than 4 KB, including post-quantum keys. TLS allows 64 KB, and a client with many connections could make the
// server hold 64 KB for each of them.
const mostHandshake = 16 << 10

// mostForNothing is how many bytes a client may send after its handshake before the reader gets one of them:
// enough for the longest record and a part of the next. Without this bound, crypto/tls would hold up to 64 KB
// of an incomplete message that updates keys or begins another handshake.
const mostForNothing = 24 << 10

// Limits on records without data: clients hardly ever send them, and each may update keys, which costs as much as
// ten short records. Every record counts as one, until Read returns its data. crypto/tls may take a thousand short
// records from the connection before it returns the data of the first.
const (
	emptyPerSecond = 100
	mostEmpty      = 2000
)

// secured is a TLS connection. Unlike a tls.Conn, it never blocks when it is closed.
type secured struct {
	*tls.Conn
	below *below
	http2 bool // whether HTTP/2 was negotiated

	resets atomic.Bool // Close must reset the connection, because otherwise its end would mark the end of the body
}

func secure(c *conn, config *tls.Config) *secured {
	b := &below{Conn: c.Conn, conn: c, left: mostHandshake, empty: c.server.unspent.empty}
	b.step = b.receiveStep
	return &secured{Conn: tls.Server(b, config), below: b}
}

// handshake does the handshake and returns the negotiated protocol. It computes only while the address given by
// of has a turn. If the client takes too long, the sweep closes the connection.
func (s *secured) handshake(of string) (protocol string, err error) {
	b := s.below
	b.shakes, b.of = true, of
	defer func() {
		b.pause()
		b.shakes = false
	}()
	err = s.Handshake()
	b.left = mostForNothing
	protocol = s.ConnectionState().NegotiatedProtocol
	s.http2 = protocol == "h2"
	return protocol, err
}

// CloseWrite ends the sending side of TLS and of the connection below.
func (s *secured) CloseWrite() error {
	_ = s.Conn.CloseWrite() // before the handshake TLS can't send anything
	if half, ok := s.below.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close ends TLS with an alert if this is possible without waiting, and closes the connection.
func (s *secured) Close() error {
	if s.resets.Load() {
		return s.below.Close()
	}
	s.below.hurry()
	return s.Conn.Close()
}

// Read implements net.Conn.
func (s *secured) Read(p []byte) (n int, err error) {
	if n, err = s.Conn.Read(p); n > 0 {
		s.below.left = mostForNothing
		if len(p) > 1 { // readFirst reads only the first byte of a record
			s.below.empty.earn(1)
		}
	}
	return n, err
}

// below is the connection below TLS. One goroutine at a time may read it.
type below struct {
	net.Conn
	conn     *conn
	buffered []byte // bytes that were read already
	into     []byte // where receiveStep reads to
	step     func(fd uintptr) (done bool)
	left     int // how many bytes may still come before the handshake is complete, or before the reader gets one

	empty budget // bounds the records without data
	head  uint64 // a 1, and then the bytes of a record's head that were read; 0: none
	rest  int    // how many bytes of the record are still to come

	shakes bool        // whether a handshake is in progress
	of     string      // address for which the handshake takes turns
	held   atomic.Bool // whether the handshake has a turn

	hurries  atomic.Bool // whether writes don't wait
	hurrying sync.Mutex  // held while the write deadline is set
}

var errHandshakeTooLong = errors.New("the handshake is too long, or what follows has too little data")

// Read implements net.Conn. It fails when the client has sent as much as it may.
func (b *below) Read(p []byte) (n int, err error) {
	if b.left == 0 {
		return 0, errHandshakeTooLong
	}
	p = p[:min(len(p), b.left)]
	defer func() {
		n = max(n, 0)
		b.left -= n
		if begun := b.records(p[:n]); begun > 0 && !b.empty.spend(time.Since(b.conn.server.began), begun) {
			n, err = 0, errHandshakeTooLong
		}
	}()
	if !b.shakes {
		return b.receive(p)
	}
	b.pause()
	if n, err = b.receive(p); n > 0 {
		if gone := b.goOn(); gone != nil {
			return 0, gone
		}
	}
	return n, err
}

// records returns how many records p completes the heads of. A head has five bytes and ends with the length of the
// rest.
func (b *below) records(p []byte) (n int) {
	for len(p) > 0 {
		took := min(b.rest, len(p))
		if b.rest -= took; took == 0 {
			took = 1
			if b.head = max(b.head, 1)<<8 | uint64(p[0]); b.head >= 1<<40 {
				n, b.head, b.rest = n+1, 0, int(uint16(b.head)) //nolint:gosec // the length is in the last two bytes
			}
		}
		p = p[took:]
	}
	return n
}

// goOn waits for a turn to compute. It returns an error if either side has closed the connection
// in the meantime.
func (b *below) goOn() error {
	waited := b.conn.server.turns.await(b.of)
	b.held.Store(true)
	raw := b.conn.raw
	if !waited || raw == nil {
		return nil
	}
	if raw.Control(func(uintptr) {}) != nil {
		return net.ErrClosed
	}
	if hasLeft(raw) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// pause ends the turn, if the handshake has one.
func (b *below) pause() {
	if b.held.Load() && b.held.Swap(false) { // usually the handshake is over
		b.conn.server.turns.done()
	}
}

// receive reads without regard to turns.
func (b *below) receive(p []byte) (n int, err error) {
	if len(b.buffered) > 0 {
		n = copy(p, b.buffered)
		if b.buffered = b.buffered[n:]; len(b.buffered) == 0 {
			b.buffered = nil
		}
		return n, nil
	}
	if b.conn.raw == nil {
		return b.Conn.Read(p)
	}
	b.into = p
	err = b.conn.raw.Read(b.step)
	b.into = nil
	if err == nil {
		n, err = b.conn.tried, b.conn.tryErr
	}
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// receiveStep reads without waiting. It returns false if there is nothing to read.
func (b *below) receiveStep(fd uintptr) (done bool) {
	b.conn.tried, b.conn.tryErr = nonblock.Read(fd, b.into)
	return b.conn.tryErr != syscall.EAGAIN //nolint:errorlint // nothing wraps it
}

// Write implements net.Conn.
func (b *below) Write(p []byte) (int, error) {
	b.pause()
	switch {
	case b.conn.raw == nil:
		return b.Conn.Write(p)
	case !b.hurries.Load():
		one, n := b.conn.server.memory.ones.Get().(*[1][]byte), len(p)
		one[0] = p
		err := b.conn.giveRaw(one[:])
		if err != nil {
			n -= len(one[0])
		}
		one[0] = nil
		b.conn.server.memory.ones.Put(one)
		return n, err
	}
	var n int // not results with names, because each Write would then allocate memory for them
	var err error
	if e := b.conn.raw.Control(func(fd uintptr) { n, err = nonblock.Write(fd, p) }); e != nil {
		return 0, e
	}
	return n, err
}

// hurry ends pending writes, because a blocked writer holds a lock that Close needs.
func (b *below) hurry() {
	b.hurrying.Lock()
	defer b.hurrying.Unlock()
	b.hurries.Store(true)
	_ = b.Conn.SetWriteDeadline(time.Unix(1, 0)) // if the connection is closed, writing fails anyway
}

// SetDeadline implements net.Conn.
func (b *below) SetDeadline(t time.Time) error {
	return errors.Join(b.SetReadDeadline(t), b.SetWriteDeadline(t))
}

// SetWriteDeadline implements net.Conn.
func (b *below) SetWriteDeadline(t time.Time) error {
	b.hurrying.Lock()
	defer b.hurrying.Unlock()
	if b.hurries.Load() {
		return nil // hurry has set a deadline in the past
	}
	return b.Conn.SetWriteDeadline(t)
}

// turns limits how many handshakes compute at a time. Handshakes use CPU time before there is a request to
// charge, so a flood of them would slow down all requests and all new connections. Among the waiting
// handshakes, the first one of each address goes before the second one of any address. The limit on connections
// bounds how many handshakes wait, and Options.Header bounds how long they wait.
type turns struct {
	taken chan struct{} // holds an element for each handshake that computes

	mu    sync.Mutex // guards the fields below
	lines map[string]*line
}

// line holds back the handshakes of one address, so that only one of them competes with those of other
// addresses.
type line struct {
	first chan struct{} // holds an element while one handshake competes
	long  int           // number of handshakes that wait; guarded by turns.mu
}

func newTurns(most int) *turns {
	return &turns{taken: make(chan struct{}, most), lines: make(map[string]*line)}
}

// await waits for a turn of an address. The caller must call done afterwards. await reports
// whether it had to wait.
func (t *turns) await(of string) (waited bool) {
	select {
	case t.taken <- struct{}{}:
		return false
	default:
	}
	t.mu.Lock()
	l := t.lines[of]
	if l == nil {
		l = &line{first: make(chan struct{}, 1)}
		t.lines[of] = l
	}
	l.long++
	t.mu.Unlock()
	l.first <- struct{}{}
	t.taken <- struct{}{}
	<-l.first
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.long--; l.long == 0 {
		delete(t.lines, of)
	}
	return true
}

// done ends a turn, so that the next one can begin.
func (t *turns) done() { <-t.taken }
