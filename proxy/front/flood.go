package front

import (
	"net/netip"
	"sync"
	"time"

	"tempomat/proxy/connlimit"
)

// floods bounds what a client of HTTP/2 can make the server do.
//
// HTTP/2 carries many requests over one connection, in frames, and has frames of its own to run
// the connection. Almost every type of frame has the server work, and costs the client nothing.
// A server that does everything it is asked can be kept busy by one connection, without a
// request that could be counted:
//
//   - A stream that is opened and given up at once makes the server start a request without a
//     client (rapid reset, CVE-2023-44487). The client may also have the server give it up, by
//     a frame that is not allowed there (MadeYouReset, CVE-2025-8671).
//   - PING and SETTINGS have to be acknowledged, PRIORITY is looked up, frames of types
//     unknown are read and thrown away (CVE-2019-9512, 9513, 9515).
//   - DATA and CONTINUATION may be empty, or as good as empty, so that a message never
//     ends (CVE-2019-9518, CVE-2023-45288).
//   - A window that opens by a byte has the server send a byte (CVE-2019-9511).
//
// So a connection has a budget of each, argued from what honest clients do. Where honest use has
// no bound, it is earned: a client that was sent much may often report that it has read it. A
// connection that exceeds a budget is closed, long before it has cost a second of CPU. Only a
// client that sends DATA in small pieces, as an honest stream of messages may, is read more slowly
// instead. Unanswered requests are also counted for all connections of an address, because a new
// connection has new budgets.
//
// What a request costs is not looked at here, nor how many there are: they reach the handler,
// where they are counted. Only requests that are given up before their answer is complete are
// bounded here, because the handler sees them too late.
//
// Its methods get the time since the connection began.
type floods struct {
	resets, sessions, control, windows, small, long budget

	pieces, bytes int // of the header that comes
	sent          int // bytes that have not earned a WINDOW_UPDATE yet

	address *address // the client's; nil: it is bounded by itself only
	began   time.Time
}

// newFloods makes the bounds of a connection that carries so many clients.
func newFloods(clients int, began time.Time) floods {
	limit := func(perSecond, burst, most int) budget {
		return newBudget(perSecond*clients, burst*clients, most*clients)
	}
	return floods{
		resets:   limit(resetsPerSecond, mostResets, 0),
		sessions: limit(sessionsPerSecond, mostSessions, 0),
		control:  limit(controlPerSecond, mostControl, savedControl),
		windows:  limit(windowsPerSecond, mostWindows, savedWindows),
		small:    limit(smallDataPerSecond, mostSmallData, savedSmallData),
		long:     limit(headerPerSecond, mostHeaderBytes, 0),
		began:    began,
	}
}

// header notes that a header begins, or goes on, with so many bytes.
func (f *floods) header(now time.Duration, begins bool, length int) error {
	f.pieces++
	if begins {
		f.pieces, f.bytes = 0, 0
	} else if err := f.control.charge(now, 1, Control); err != nil {
		return err
	}
	free := max(0, shortHeader-f.bytes)
	f.bytes += length
	if f.pieces > mostContinuations || f.bytes > mostHeader {
		return HeaderTooLong
	}
	return f.long.charge(now, max(0, length-free), LongHeaders)
}

// request notes that a request begins.
func (f *floods) request(now time.Duration) error {
	f.control.earn(controlEarned)
	f.windows.earn(windowsEarned)
	if f.address != nil && !f.address.begin(f.began.Add(now)) {
		return Unanswered
	}
	return nil
}

// answered notes that an answer is complete, or that the handler gave it up.
func (f *floods) answered() {
	if f.address != nil {
		f.address.complete()
	}
}

// reset notes that a stream was given up, or that the client made the server reset it, which is
// the same to the server.
func (f *floods) reset(now time.Duration) error { return f.resets.charge(now, 1, Resets) }

// windowUpdate notes that a window opens: that of the connection, which is open anyway, or another
// one.
func (f *floods) windowUpdate(now time.Duration, anyway bool) error {
	if anyway && f.windows.saved == 0 {
		return f.control.charge(now, 1, Control)
	}
	return f.windows.charge(now, 1, Windows)
}

// sentData notes what the client was sent, and what it may send for that.
func (f *floods) sentData(length int) {
	f.sent += length
	f.windows.earn(f.sent / bytesEarnWindow)
	f.sent %= bytesEarnWindow
	f.control.earn(controlEarned)
	f.small.earn(1)
}

// Flood is why a connection of HTTP/2 is closed: what came too often.
type Flood string

func (f Flood) Error() string { return "HTTP/2 flood: " + string(f) }

// Events that may come too often.
const (
	Resets        Flood = "streams given up before their answer was complete"
	Control       Flood = "frames that are no part of a request"
	Sessions      Flood = "SETTINGS or GOAWAY"
	Windows       Flood = "WINDOW_UPDATE for more than was sent"
	HeaderTooLong Flood = "a header in too many or too long pieces"
	LongHeaders   Flood = "long headers"
	Unanswered    Flood = "requests of one address that are not answered"
)

// Resets: people leave a page whose 100 images have not come, or pan a map, which
// throws dozens of tiles away at a time. mostStreams are allowed at once, so
// that four full pages may be left in the same moment.
const (
	resetsPerSecond = 100
	mostResets      = 1000
)

// SETTINGS and GOAWAY: a client sends one of each. That of gRPC sends SETTINGS again
// whenever its estimate of the bandwidth doubles, that is nine times at most. Each may
// change the windows of all streams, and each GOAWAY may be logged.
const (
	sessionsPerSecond = 10
	mostSessions      = 100
	goAwayCosts       = 10
)

// Frames that aren't part of a request: PING, PRIORITY, PRIORITY_UPDATE, types unknown, empty
// DATA, CONTINUATION, resets of what was answered, and WINDOW_UPDATE of the connection for some
// bytes while its window is open anyway.
//   - A browser sends a PRIORITY or two with a request, and one more where an image comes into
//     view, so each request earns two, and a page's worth may come at once.
//   - gRPC (grpc-go, and hyper of Rust) measures the bandwidth by a PING and a WINDOW_UPDATE on
//     a DATA frame that it has received, one at a time, so each DATA frame earns two.
const (
	controlPerSecond = 200
	mostControl      = 1000
	savedControl     = 8000
	controlEarned    = 2
)

// WINDOW_UPDATE: most clients send one when half of a window of 64 KB or more has been read.
// Go's sends two after 4 KB. Simple ones, and HAProxy, send two for each DATA frame (some
// servers make one of each 4 KB) and for each event of an event stream. So 512 bytes earn one,
// and each request two. A client that stalled may have 100 MB to report at once, but does so in
// larger steps. A client that lets the server send byte by byte (Data Dribble, CVE-2019-9511)
// earns nothing.
const (
	windowsPerSecond = 200
	mostWindows      = 1000
	savedWindows     = 32000
	bytesEarnWindow  = 512
	windowsEarned    = 2
	// openWindow is how much the connection's window has left, in bytes, if it does
	// not keep the server from sending.
	openWindow = 16 << 10
)

// DATA in small pieces: uploads come in pieces of some KB, the last one aside. But a stream of
// messages (gRPC) may have one of some bytes for each, as fast as they can be read. So a client
// that sends many is read more slowly, and not cut; if the server answers each, the client may
// go as fast as it likes.
const (
	smallData          = 1 << 10 // less than so many bytes
	smallDataPerSecond = 10000
	mostSmallData      = 10000
	savedSmallData     = 5000
)

// One header: one above Options.MaxHead (64 KB) is answered with 431, one above twice that ends
// the connection. Clients cut a header at 16 KB, so twice as many pieces as necessary are
// allowed.
const (
	mostHeader        = 128 << 10 // bytes, compressed
	mostContinuations = 16
)

// Long headers: the first KB of each is the request's own. The rest must be decoded, and one
// byte may stand for a field of 4 KB (HPACK bomb, CVE-2016-6581). Headers that get too long are
// refused without asking the handler. A browser names a cookie again by a byte or two, unless
// it has more than 4 KB of them: so a page of 200 parts with 8 KB of cookies each may be loaded
// twice at once.
const (
	shortHeader     = 1 << 10   // bytes
	headerPerSecond = 256 << 10 // bytes
	mostHeaderBytes = 3 << 20
)

// budget bounds how often something happens: at a steady rate, with a burst, by the generic
// cell rate algorithm (GCRA, ITU-T I.371). Savings from honest work are spent first.
//
// A frame costs the server some µs, whatever it is. So a client that stays below rate, burst
// and savings together for a second takes less than a fifth of a CPU in it, and one that does
// not is cut before the second is over.
type budget struct {
	each  time.Duration // between two at the steady rate
	burst int           // how many may come at once
	most  int           // how many may be saved

	paid  time.Duration // until when what came is paid for, since the connection began
	saved int           // earned and not spent
}

// newBudget makes a budget of so many per second.
func newBudget(perSecond, burst, most int) budget {
	return budget{each: time.Second / time.Duration(perSecond), burst: burst, most: most}
}

// earn adds n to what the client may still do, up to the most that may be saved.
func (b *budget) earn(n int) { b.saved = min(b.saved+n, b.most) }

// spend reports whether so many more may happen now. Now never goes backwards.
func (b *budget) spend(now time.Duration, n int) bool {
	free := min(n, b.saved)
	b.saved -= free
	if n == free {
		return true
	}
	b.paid = max(b.paid, now) + time.Duration(n-free)*b.each
	return b.late(now) == 0
}

// late is how long it takes until what has happened is within the budget.
func (b *budget) late(now time.Duration) time.Duration {
	return max(0, b.paid-now-time.Duration(b.burst)*b.each)
}

// charge is spend, whose error is the flood.
func (b *budget) charge(now time.Duration, n int, why Flood) error {
	if b.spend(now, n) {
		return nil
	}
	return why
}

// Together: requests of all connections of an address, also one after the other. An answered
// one no longer counts; of the others 400 a second are forgotten. Otherwise a client that again
// and again opens a connection, gives up some hundreds of requests and closes it could make the
// server work without a limit. A connection has 250 streams at most, so 16 connections may use
// all of theirs at once.
const (
	togetherPerSecond = 400
	mostTogether      = 4000
	// mostAddresses is how many are known before those without a connection are forgotten.
	mostAddresses = 1 << 16
)

// addresses bound what the connections of an address do together. The zero value knows of
// none. Its methods may be called concurrently.
type addresses struct {
	mu    sync.Mutex
	known map[netip.Addr]*address
}

// address is what one address does; one of IPv6 stands for its /64.
type address struct {
	all   *addresses
	key   netip.Addr
	conns int        // guarded by all.mu
	mu    sync.Mutex // guards the following
	paid  time.Time  // until when what came is paid for
}

// enter notes a connection of an address, until leave.
func (t *addresses) enter(from netip.Addr) *address {
	from = connlimit.ClientOf(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.known[from]
	if a == nil {
		t.forget()
		a = &address{all: t, key: from}
		if t.known == nil {
			t.known = make(map[netip.Addr]*address)
		}
		t.known[from] = a
	}
	a.conns++
	return a
}

// forget makes room among those without a connection, if there are too many.
func (t *addresses) forget() {
	if len(t.known) < mostAddresses {
		return
	}
	for key, a := range t.known {
		if a.conns == 0 {
			delete(t.known, key)
		}
	}
}

// leave notes the end of a connection.
func (a *address) leave(now time.Time) {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	if a.conns--; a.conns > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.paid.After(now) {
		delete(a.all.known, a.key)
	}
}

// begin reports whether one more request may begin.
func (a *address) begin(now time.Time) bool {
	const burst = mostTogether * (time.Second / togetherPerSecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paid.Before(now) {
		a.paid = now
	}
	if late := a.paid.Sub(now) - burst; late >= 0 {
		return false
	}
	a.paid = a.paid.Add(time.Second / togetherPerSecond)
	return true
}

// complete notes that a request was answered: it does not count any more.
func (a *address) complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paid = a.paid.Add(-time.Second / togetherPerSecond)
}
