package front

import (
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tempomat/proxy/connlimit"
)

// floods bounds the work that an HTTP/2 client can cause.
//
// An HTTP/2 connection carries many requests, and frames that manage the connection. Nearly every type of frame
// causes work on the server and costs the client nothing. If a server did all this work, one connection could
// keep the server busy without ever completing a request, and only complete requests are charged:
//
//   - If a client opens a stream and cancels it at once, the server starts a request whose answer
//     no one waits for (rapid reset, CVE-2023-44487). The client can also make the server reset
//     the stream, by a frame that isn't allowed there (MadeYouReset, CVE-2025-8671).
//   - The server must acknowledge PING and SETTINGS, look up PRIORITY, and read frames of
//     unknown types (CVE-2019-9512, 9513, 9515).
//   - DATA and CONTINUATION may be empty or nearly empty, and a message may then never end
//     (CVE-2019-9518, CVE-2023-45288).
//   - If a window opens by one byte, the server sends one byte (CVE-2019-9511).
//
// Therefore a connection has a budget for each kind of frame, derived from what honest clients send. If honest
// clients may send any number of a kind, a connection earns the budget for it by other traffic. For example, a
// client that receives much data may often report that it has read some. A connection that exceeds a budget is
// closed long before it has cost a second of CPU time. There is one exception: DATA in small pieces is only
// read more slowly, because honest streams of messages also look like this. Unanswered requests are also
// counted over all connections from an address, because each new connection has new budgets.
//
// The handler counts and charges complete requests. Of requests, this type bounds only those that are cancelled
// before their answer is complete, because the handler notices these too late.
//
// The parameter now of the methods is the time since the server began.
type floods struct {
	resets, control, windows, small, long budget

	bytes int // size so far of the header that is being read
	sent  int // bytes sent to the client for which it has not earned a WINDOW_UPDATE yet

	address *address // the client's address; nil: only the connection is bounded
}

// unspent are the budgets of new connections. Their copies share the limits.
type unspent struct {
	client, proxy floods // of an HTTP/2 connection from a client or from a trusted proxy
	empty         budget // of a TLS connection: records without data
}

func newUnspent() unspent {
	return unspent{newFloods(1), newFloods(manyClients), newBudget(emptyPerSecond, mostEmpty, mostEmpty)}
}

// newFloods returns the budgets of a connection that stands for the given number of clients.
func newFloods(clients int) floods {
	limit := func(perSecond, burst, most int) budget {
		return newBudget(perSecond*clients, burst*clients, most*clients)
	}
	return floods{
		resets:  limit(resetsPerSecond, mostResets, 0),
		control: limit(controlPerSecond, mostControl, savedControl),
		windows: limit(windowsPerSecond, mostWindows, savedWindows),
		small:   limit(smallDataPerSecond, mostSmallData, savedSmallData),
		long:    limit(headerPerSecond, mostHeaderBytes, 0),
	}
}

// header counts length bytes of a header that begins or continues.
func (f *floods) header(now time.Duration, begins bool, length int) error {
	if begins {
		f.bytes = 0
	} else if err := f.control.charge(now, 1, Control); err != nil {
		return err
	}
	free := max(0, shortHeader-f.bytes)
	f.bytes += length
	if f.bytes > mostHeader {
		return HeaderTooLong
	}
	return f.long.charge(now, max(0, length-free), LongHeaders)
}

// request counts a request that begins.
func (f *floods) request(now time.Duration) error {
	f.control.earn(controlEarned)
	f.windows.earn(windowsEarned)
	if f.address != nil && !f.address.begin(now) {
		return Unanswered
	}
	return nil
}

// answered records that an answer is complete, or that the handler has abandoned it.
func (f *floods) answered() {
	if f.address != nil {
		f.address.complete()
	}
}

// reset counts a stream that was cancelled, either by the client or by a server reset that the client
// provoked.
func (f *floods) reset(now time.Duration) error { return f.resets.charge(now, 1, Resets) }

// windowUpdate counts a WINDOW_UPDATE. anyway is true if the frame is useless, because it is for the window of
// the whole connection, which is still wide open.
func (f *floods) windowUpdate(now time.Duration, anyway bool) error {
	if anyway && f.windows.saved == 0 {
		return f.control.charge(now, 1, Control)
	}
	return f.windows.charge(now, 1, Windows)
}

// sentData counts data that was sent, which earns the client WINDOW_UPDATE and control frames.
func (f *floods) sentData(length int) {
	f.sent += length
	f.windows.earn(f.sent / bytesEarnWindow)
	f.sent %= bytesEarnWindow
	f.control.earn(controlEarned)
	f.small.earn(1)
}

// Flood is the reason for closing an HTTP/2 connection: the kind of frame that came too often.
type Flood string

func (f Flood) Error() string { return "HTTP/2 flood: " + string(f) }

// The kinds of floods.
const (
	Resets        Flood = "too many streams cancelled before their answer was complete"
	Control       Flood = "too many frames that are not part of a request"
	Windows       Flood = "too many WINDOW_UPDATE frames for the data sent"
	HeaderTooLong Flood = "a header that is too long"
	LongHeaders   Flood = "long headers"
	Unanswered    Flood = "too many unanswered requests from one address"
)

// Limits on resets: people leave a page before its 100 images have arrived, or move a map, which cancels dozens
// of tiles at a time. A client may cancel 1000 streams at once, so a user may leave four pages, each with
// mostStreams requests, at the same moment.
const (
	resetsPerSecond = 100
	mostResets      = 1000
)

// Limits on frames that aren't part of a request: SETTINGS, GOAWAY, PING, PRIORITY, PRIORITY_UPDATE, unknown
// types, empty DATA, CONTINUATION, resets of streams that were answered, and small WINDOW_UPDATEs
// of a connection whose window is open.
//   - A browser sends one or two PRIORITY frames with a request, and another when an image
//     comes into view. Each request therefore earns two frames, and those for a whole page may come at once.
//   - gRPC (grpc-go, and hyper for Rust) measures the bandwidth by sending a PING and a
//     WINDOW_UPDATE after a DATA frame, one pair at a time, so each DATA frame earns two. gRPC
//     sends SETTINGS when its estimate doubles, which is nine times at most. SETTINGS and
//     GOAWAY count as ten frames, because SETTINGS may change the windows of all streams.
const (
	settingsCost     = 10
	controlPerSecond = 200
	mostControl      = 1000
	savedControl     = 8000
	controlEarned    = 2
)

// Limits on WINDOW_UPDATE: most clients send one after they have read half of a window of at least 64 KB. Go's
// client sends two per 4 KB. Simple clients and HAProxy send two for each event of an event stream, and for
// each DATA frame, which some servers fill with 4 KB. Therefore 512 bytes earn one frame, and each request
// earns two. After a stall, a client may have 100 MB to report at once, but reports them in larger steps. A
// client that lets the server send byte by byte (Data Dribble, CVE-2019-9511) earns nothing.
const (
	windowsPerSecond = 200
	mostWindows      = 1000
	savedWindows     = 32000
	bytesEarnWindow  = 512
	windowsEarned    = 2
	// openWindow is how many bytes the connection's window must have left to count as open. The server can then
	// send for a while without a WINDOW_UPDATE.
	openWindow = 16 << 10
)

// Limits on DATA in small pieces: the pieces of an upload have a few KB, except for the last one. But a stream
// of messages (gRPC) may have a few bytes in each piece, as fast as the server reads them. A client that sends
// many small pieces is therefore not cut off, only read more slowly. If the server answers each piece, there is
// no limit.
const (
	smallData          = 1 << 10 // a piece is small below this size, in bytes
	smallDataPerSecond = 10000
	mostSmallData      = 10000
	savedSmallData     = 5000
)

// mostHeader is the largest compressed size of one header, in bytes. A header above Options.MaxHead (64 KB) is answered
// with 431, and one above twice this size ends the connection.
const mostHeader = 128 << 10

// Limits on long headers: the first KB of each header is free. The rest must be decoded, and one byte can stand
// for a field of 4 KB (HPACK bomb, CVE-2016-6581). Headers that are too long never reach the handler. To repeat
// a cookie, a browser sends a byte or two, unless it has more than 4 KB of cookies. The budget lets a page of
// 200 parts with 8 KB of cookies each load twice at once.
const (
	shortHeader     = 1 << 10   // bytes
	headerPerSecond = 256 << 10 // bytes
	mostHeaderBytes = 3 << 20
)

// budget bounds how often something happens: a steady rate with a burst, by the generic cell rate algorithm
// (GCRA, ITU-T I.371). Earned events are spent first.
//
// Any frame costs the server a few µs. A client that stays within rate, burst and savings uses less than a
// fifth of a CPU in a second. A client that exceeds them is cut off within a second.
type budget struct {
	*limit

	paid  time.Duration // time, since the server began, by which the steady rate will have paid for all events so far
	saved int           // earned events that have not been spent yet
}

// limit is the part of a budget that never changes. All connections share it.
type limit struct {
	each  time.Duration // time between two events at the steady rate
	burst int           // how many events may come at once
	most  int           // how many events may be saved
}

// newBudget returns a budget of perSecond events per second.
func newBudget(perSecond, burst, most int) budget {
	return budget{limit: &limit{each: time.Second / time.Duration(perSecond), burst: burst, most: most}}
}

// earn adds n events to the savings.
func (b *budget) earn(n int) { b.saved = min(b.saved+n, b.most) }

// spend reports whether n more events may happen now. now must never decrease.
func (b *budget) spend(now time.Duration, n int) bool {
	free := min(n, b.saved)
	b.saved -= free
	if n == free {
		return true
	}
	b.paid = max(b.paid, now) + time.Duration(n-free)*b.each
	return b.late(now) == 0
}

// late returns how long it takes until the events so far are within the budget.
func (b *budget) late(now time.Duration) time.Duration {
	return max(0, b.paid-now-time.Duration(b.burst)*b.each)
}

// charge calls spend and returns why if the events exceed the budget.
func (b *budget) charge(now time.Duration, n int, why Flood) error {
	if b.spend(now, n) {
		return nil
	}
	return why
}

// These constants bound the unanswered requests from an address, over all its connections, including those that
// have ended. Otherwise a client could repeatedly open a connection, cancel hundreds of requests and close the
// connection, and so cause unlimited work. A request stops counting when it is answered. Of the unanswered
// ones, 400 a second are forgotten. A connection has at most 250 streams, so 16 connections from an address may
// use all their streams at once.
const (
	togetherPerSecond = 400
	mostTogether      = 4000
	// mostAddresses is how many addresses are remembered. A forgotten address starts over.
	mostAddresses = 1 << 14
)

// address is the activity of all connections of one IPv4 address or one IPv6 /64. Its methods may be called
// concurrently.
type address struct {
	mu sync.Mutex // guards the field below
	budget
}

// addresses are the most recently used addresses.
type addresses struct {
	*lru.Cache[netip.Addr, *address]

	unspent budget // of an address without requests
}

func newAddresses() *addresses {
	all, _ := lru.New[netip.Addr, *address](mostAddresses) // fails only for a size below 1
	return &addresses{all, newBudget(togetherPerSecond, mostTogether, 0)}
}

// addressOf returns the record of an address.
func addressOf(all *addresses, from netip.Addr) *address {
	key := connlimit.ClientOf(from)
	a, ok := all.Get(key)
	if !ok {
		a = &address{budget: all.unspent}
		if other, ok, _ := all.PeekOrAdd(key, a); ok {
			return other
		}
	}
	return a
}

// begin reports whether another request may begin.
func (a *address) begin(now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spend(now, 1) {
		return true
	}
	a.paid -= a.each
	return false
}

// complete records that a request was answered and no longer counts.
func (a *address) complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paid -= a.each
}
