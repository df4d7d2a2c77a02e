package front

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tempomat/proxy/nonblock"
)

// mostHandshake is how much a client may send before its handshake is complete, in bytes.
// Those of today's clients, keys after quantum computers included, take less than 4 KB. TLS
// allows 64 KB, which whoever has many connections could have the server hold for each.
const mostHandshake = 16 << 10

// mostForNothing is how much a client may send after its handshake without a byte for the
// reader: the longest record and a part of the next one. TLS would keep up to 64 KB of a message
// that replaces its keys, or begins another handshake, for as long as the rest does not come.
const mostForNothing = 24 << 10

// secured is a connection over TLS. Unlike a tls.Conn it never waits as it is closed.
type secured struct {
	*tls.Conn
	below *below
	http2 bool // what the client and the server have agreed on

	resets atomic.Bool // the end of the connection would be that of a body
}

func secure(c net.Conn, raw syscall.RawConn, config *tls.Config) *secured {
	b := &below{Conn: c, raw: raw, left: mostHandshake}
	return &secured{Conn: tls.Server(b, config), below: b}
}

// handshake does the handshake, and returns the protocol on which both agree. It computes in the
// turns of an address. The sweep closes late connections.
func (s *secured) handshake(in *turns, of string) (protocol string, err error) {
	b := s.below
	b.turns, b.of = in, of
	defer func() {
		b.pause()
		b.turns = nil
	}()
	err = s.Handshake()
	b.left = mostForNothing
	protocol = s.ConnectionState().NegotiatedProtocol
	s.http2 = protocol == "h2"
	return protocol, err
}

// CloseWrite tells the client that nothing more comes, in TLS and below.
func (s *secured) CloseWrite() error {
	_ = s.Conn.CloseWrite() // before the handshake no peer can be told
	if half, ok := s.below.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close tells the client, if that can be done at once, and closes the connection.
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
	}
	return n, err
}

// readNow reads what has come, by a descriptor, without waiting. The error is errNothing if
// that is no whole record.
func (s *secured) readNow(fd uintptr, p []byte) (int, error) {
	s.below.fd, s.below.now = fd, true
	defer func() { s.below.now = false }()
	return s.Read(p)
}

// below is what TLS is spoken over. Reading is for one goroutine at a time.
type below struct {
	net.Conn
	raw      syscall.RawConn // nil: it is not the kernel's
	buffered []byte          // came already
	left     int             // bytes that may come still, before the handshake is complete or something is read

	now bool    // reads, by fd, do not wait
	fd  uintptr // of now

	turns *turns                // that the handshake computes in; nil: there is none under way
	of    string                // whose turns they are
	held  atomic.Pointer[turns] // in which it has one; nil: it has none

	hurries  atomic.Bool // writes do not wait
	hurrying sync.Mutex  // held to set the deadline of those that do
}

// nothing is the error of a read that would have to wait. TLS goes on after errors that are
// temporary.
type nothing struct{}

func (nothing) Error() string   { return "nothing has come" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }

var (
	errNothing          net.Error = nothing{}
	errHandshakeTooLong           = errors.New("the handshake is too long, or a message after it")
)

// Read implements net.Conn. Of what may not come any more it reads nothing.
func (b *below) Read(p []byte) (n int, err error) {
	if b.left == 0 {
		return 0, errHandshakeTooLong
	}
	p = p[:min(len(p), b.left)]
	defer func() { b.left -= max(n, 0) }()
	if b.turns == nil {
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

// goOn waits for a turn to compute with what has come. There is an error if either side has
// closed the connection in the meantime.
func (b *below) goOn() error {
	waited := b.turns.await(b.of)
	b.held.Store(b.turns)
	if !waited || b.raw == nil {
		return nil
	}
	if b.raw.Control(func(uintptr) {}) != nil {
		return net.ErrClosed
	}
	if _, isTCP := b.Conn.(*net.TCPConn); hasLeft(b.raw, isTCP) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// pause ends the turn, if there is one.
func (b *below) pause() {
	if b.held.Load() == nil {
		return // as after the handshake
	}
	if t := b.held.Swap(nil); t != nil {
		t.done()
	}
}

// receive is Read without turns.
func (b *below) receive(p []byte) (n int, err error) {
	if len(b.buffered) > 0 {
		n = copy(p, b.buffered)
		if b.buffered = b.buffered[n:]; len(b.buffered) == 0 {
			b.buffered = nil
		}
		return n, nil
	}
	if !b.now {
		return b.Conn.Read(p)
	}
	n, err = nonblock.Read(b.fd, p)
	switch {
	case err == nil && n == 0:
		return 0, io.EOF
	case errors.Is(err, syscall.EAGAIN):
		return 0, errNothing
	}
	return n, err
}

// Write implements net.Conn.
func (b *below) Write(p []byte) (n int, err error) {
	b.pause()
	if !b.hurries.Load() || b.raw == nil {
		return b.Conn.Write(p)
	}
	if e := b.raw.Control(func(fd uintptr) { n, err = nonblock.Write(fd, p) }); e != nil {
		return 0, e
	}
	return n, err
}

// hurry ends waits for writing: a waiting writer holds what Close needs.
func (b *below) hurry() {
	b.hurrying.Lock()
	defer b.hurrying.Unlock()
	b.hurries.Store(true)
	_ = b.Conn.SetWriteDeadline(time.Unix(1, 0)) // a connection that is closed says so when it is written to
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
		return nil // it has passed
	}
	return b.Conn.SetWriteDeadline(t)
}

// turns lets handshakes compute in turn. They cost CPU before there is a request that could be
// charged, and a flood of them would otherwise use all CPUs at once, ahead of other clients
// that connect and of requests. Some compute at a time; of the waiting ones, one of each
// address goes before the second one of any. Their number is bounded by that of connections,
// and their wait by Options.Header.
type turns struct {
	mu    sync.Mutex // guards the following
	free  int        // how many more may compute
	lines map[string]*line
	order []*line // lines with a waiting handshake, in the order of their turns
}

// line is the waiting handshakes of one address, first come, first served.
type line struct {
	of   string
	wait []chan struct{}
}

func newTurns(most int) *turns { return &turns{free: most, lines: make(map[string]*line)} }

// await waits for a turn of an address; call done when it is over. It tells whether it had to
// wait.
func (t *turns) await(of string) (waited bool) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return false
	}
	l := t.lines[of]
	if l == nil {
		l = &line{of: of}
		t.lines[of] = l
		t.order = append(t.order, l)
	}
	turn := make(chan struct{})
	l.wait = append(l.wait, turn)
	t.mu.Unlock()
	<-turn
	return true
}

// done ends a turn. The next one begins.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	l := t.order[0]
	t.order[0], t.order = nil, t.order[1:]
	close(l.wait[0])
	if l.wait = l.wait[1:]; len(l.wait) > 0 {
		t.order = append(t.order, l)
		return
	}
	delete(t.lines, l.of)
}

// turnOf is whose turn a connection takes: that of its address, of IPv6 its /64. A trusted peer
// brings many clients, and each connection of its has turns of its own.
func turnOf(remote string, trusted bool) string {
	a, err := netip.ParseAddrPort(remote)
	if err != nil || trusted {
		return remote
	}
	at := a.Addr().Unmap()
	if at.Is6() {
		p, _ := at.WithZone("").Prefix(64) // of an address without a zone there is one
		return p.String()
	}
	return at.String()
}
