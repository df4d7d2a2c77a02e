package h2bound

import (
	"cmp"
	"slices"
	"time"
)

// bounds follows what goes over one connection, and tells when it is to be closed. It
// is told the time that has passed since the connection began.
type bounds struct {
	preface int // bytes of it that have come
	client  scanner
	server  scanner

	streams streams
	newest  uint32 // the highest stream that the client has opened
	header  struct{ pieces, bytes int }
	window  int // of the connection, in bytes: how much the server may send
	sent    int // bytes that have not earned a WINDOW_UPDATE yet

	resets, sessions, control, windows, small, long budget

	address *address // the client's; nil: it is bounded by itself only
	began   time.Time
}

// newBounds makes the bounds of a connection that carries so many clients.
func newBounds(clients int) *bounds {
	limit := func(perSecond, burst, most int) budget {
		return newBudget(perSecond*clients, burst*clients, most*clients)
	}
	return &bounds{
		window:   firstWindow,
		resets:   limit(resetsPerSecond, mostResets, 0),
		sessions: limit(sessionsPerSecond, mostSessions, 0),
		control:  limit(controlPerSecond, mostControl, savedControl),
		windows:  limit(windowsPerSecond, mostWindows, savedWindows),
		small:    limit(smallDataPerSecond, mostSmallData, savedSmallData),
		long:     limit(headerPerSecond, mostHeaderBytes, 0),
	}
}

// read is told what the client has sent, in order. It is false if that is not HTTP/2.
// After a flood the connection is to be closed.
func (b *bounds) read(now time.Duration, p []byte) (isHTTP2 bool, why Flood) {
	for ; b.preface < len(preface); b.preface++ {
		if len(p) == 0 {
			return true, ""
		}
		if p[0] != preface[b.preface] {
			return false, ""
		}
		p = p[1:]
	}
	for len(p) > 0 {
		f, rest, ok := b.client.next(p)
		if ok {
			if why := b.fromClient(now, f); why != "" {
				return true, why
			}
		}
		p = rest
	}
	return true, ""
}

// pause is how long nothing more is to be read from the client.
func (b *bounds) pause(now time.Duration) time.Duration { return b.small.late(now) }

// write is told what the server has sent, or is about to.
func (b *bounds) write(now time.Duration, p []byte) Flood {
	if b.preface < len(preface) {
		return "" // no HTTP/2 yet
	}
	for len(p) > 0 {
		f, rest, ok := b.server.next(p)
		if ok {
			if why := b.fromServer(now, f); why != "" {
				return why
			}
		}
		p = rest
	}
	return ""
}

func (b *bounds) fromClient(now time.Duration, f frame) Flood {
	switch f.kind {
	case data:
		return b.data(now, f)
	case headers:
		return b.headers(now, f)
	case continuation:
		return b.continuation(now, f)
	case resetStream:
		if b.streams.find(f.stream) == nil {
			return charge(&b.control, now, 1, Control)
		}
		return b.reset(now, f.stream)
	case windowUpdate:
		return b.windowUpdate(now, f)
	case settings:
		if f.acknowledges() {
			return charge(&b.control, now, 1, Control) // net/http closes if it did not ask
		}
		return charge(&b.sessions, now, 1, Sessions)
	case goAway:
		return charge(&b.sessions, now, goAwayCosts, Sessions)
	default:
		return charge(&b.control, now, 1, Control)
	}
}

// headers looks at a request, at its trailer, or at what has the server reset it.
func (b *bounds) headers(now time.Duration, f frame) Flood {
	b.header.pieces, b.header.bytes = 0, 0
	if why := b.block(now, f); why != "" {
		return why
	}
	if f.stream > b.newest {
		b.newest = f.stream
		b.control.earn(controlEarned)
		b.windows.earn(windowsEarned)
		if b.address != nil && !b.address.begin(b.began.Add(now)) {
			return Unanswered
		}
		if len(b.streams) == mostStreams {
			return b.reset(now, f.stream) // the server refuses it
		}
		b.streams = append(b.streams, stream{id: f.stream, sent: f.ends()})
		return ""
	}
	if s := b.streams.find(f.stream); s != nil {
		if s.sent {
			return b.reset(now, f.stream)
		}
		s.sent = f.ends()
	}
	return charge(&b.control, now, 1, Control)
}

func (b *bounds) continuation(now time.Duration, f frame) Flood {
	b.header.pieces++
	if why := b.block(now, f); why != "" {
		return why
	}
	return charge(&b.control, now, 1, Control)
}

// block counts the bytes of a header, which may come in several frames.
func (b *bounds) block(now time.Duration, f frame) Flood {
	free := max(0, shortHeader-b.header.bytes)
	b.header.bytes += f.length
	if b.header.pieces > mostContinuations || b.header.bytes > mostHeader {
		return HeaderTooLong
	}
	return charge(&b.long, now, max(0, f.length-free), LongHeaders)
}

func (b *bounds) data(now time.Duration, f frame) Flood {
	s := b.streams.find(f.stream)
	switch {
	case s != nil && s.sent:
		return b.reset(now, f.stream)
	case s != nil && f.ends():
		s.sent = true
		return "" // one per request
	case f.length == 0:
		return charge(&b.control, now, 1, Control)
	case f.length < smallData:
		b.small.spend(now, 1)
	}
	return ""
}

func (b *bounds) windowUpdate(now time.Duration, f frame) Flood {
	if f.stream == 0 {
		open := b.window >= openWindow
		b.window += int(f.value)
		if open && b.windows.saved == 0 {
			return charge(&b.control, now, 1, Control)
		}
	} else if f.value == 0 && b.streams.find(f.stream) != nil {
		return b.reset(now, f.stream)
	}
	return charge(&b.windows, now, 1, Windows)
}

// reset counts a stream that was given up, or that the client makes the server reset,
// which is the same to the server.
func (b *bounds) reset(now time.Duration, id uint32) Flood {
	b.streams.close(id)
	return charge(&b.resets, now, 1, Resets)
}

func (b *bounds) fromServer(now time.Duration, f frame) Flood {
	switch f.kind {
	case data:
		b.sentData(f)
		if f.ends() {
			b.complete(f.stream)
		}
	case headers:
		if f.ends() {
			b.complete(f.stream)
		}
	case resetStream:
		return b.sentReset(now, f)
	case settings, ping:
		if !f.acknowledges() {
			b.control.earn(1) // the client has to acknowledge it
		}
	case goAway:
		return charge(&b.resets, now, 1, Resets)
	default: // what it has to send anyway
	}
	return ""
}

// complete notes that the server has done with a stream, unless the client gave it up.
func (b *bounds) complete(id uint32) {
	if b.streams.close(id) && b.address != nil {
		b.address.complete()
	}
}

// sentData notes what the server has sent, and what the client may send for that.
func (b *bounds) sentData(f frame) {
	if f.length == 0 {
		return
	}
	b.window -= f.length
	b.sent += f.length
	b.windows.earn(b.sent / bytesEarnWindow)
	b.sent %= bytesEarnWindow
	b.control.earn(controlEarned)
	b.small.earn(1)
}

// sentReset counts a reset by the server, if the client is the cause of it: that of a
// stream that is under way is the attack MadeYouReset (CVE-2025-8671). Others answer
// DATA that was on its way when the answer was complete: net/http sends one for each.
func (b *bounds) sentReset(now time.Duration, f frame) Flood {
	const noError, internalError, cancel = 0, 2, 8 // RFC 9113, 7
	switch f.value {
	case noError, internalError, cancel:
		b.complete(f.stream) // by the handler
		return ""
	}
	if b.streams.find(f.stream) == nil {
		b.small.spend(now, 1)
		return ""
	}
	return b.reset(now, f.stream)
}

// charge spends of a budget. It returns the flood if there is too little in it.
func charge(from *budget, now time.Duration, n int, why Flood) Flood {
	if from.spend(now, n) {
		return ""
	}
	return why
}

// Flood is why a connection is closed: what came too often. The empty one is none.
type Flood string

func (f Flood) Error() string { return "HTTP/2 flood: " + string(f) }

// What may come too often.
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
// throws dozens of tiles away at a time. net/http allows 250 streams at once, so
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

// Frames that are no part of a request: PING, PRIORITY, PRIORITY_UPDATE, types unknown,
// empty DATA, CONTINUATION, resets of what was answered, and WINDOW_UPDATE of the
// connection for some bytes while its window is open anyway.
//   - A browser sends a PRIORITY or two with a request, and one more where an image
//     comes into view, so that each request earns two, and a page's worth may come at once.
//   - gRPC (grpc-go, and hyper of Rust) measures the bandwidth by a PING and a
//     WINDOW_UPDATE on a DATA frame that it has received, one at a time, so that each
//     DATA frame earns two.
const (
	controlPerSecond = 200
	mostControl      = 1000
	savedControl     = 8000
	controlEarned    = 2
)

// WINDOW_UPDATE: most clients send one when half of a window of 64 KB or more has been
// read. Go's sends two after 4 KB. Simple ones, and HAProxy, send two for each DATA
// frame, which net/http makes of 4 KB where the answer is not shorter, and for each
// event of an event stream. So 512 bytes earn one, and each request two. A client that
// stalled may have 100 MB to tell of at once, but does so in larger steps. Who lets the
// server send byte by byte (Data Dribble, CVE-2019-9511) earns nothing.
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

// DATA in small pieces: uploads come in pieces of some KB, the last one aside. But a
// stream of messages (gRPC) may have one of some bytes for each, as fast as they can be
// read. So who sends many is read more slowly, and not cut; if the server answers
// each, it goes as fast as it likes.
const (
	smallData          = 1 << 10 // less than so many bytes
	smallDataPerSecond = 10000
	mostSmallData      = 10000
	savedSmallData     = 5000
)

// One header: net/http answers 431 above 64 KB, and closes above twice that. Clients
// cut a header at 16 KB, so that twice as many pieces as it needs are allowed.
const (
	mostHeader        = 128 << 10 // bytes, compressed
	mostContinuations = 16
)

// Long headers: the first KB of each is the request's own. What is above has to be
// decoded, where a byte may stand for a field of 4 KB (HPACK bomb, CVE-2016-6581), and
// net/http refuses what gets too long without asking the handler. A browser names a
// cookie again by a byte or two, unless it has more than 4 KB of them: so a page of 200
// parts with 8 KB of cookies each may be loaded twice at once.
const (
	shortHeader     = 1 << 10   // bytes
	headerPerSecond = 256 << 10 // bytes
	mostHeaderBytes = 3 << 20
)

// firstWindow is a connection's window before any WINDOW_UPDATE (RFC 9113, 6.9.2).
const firstWindow = 65535

// budget bounds how often something happens: at a steady rate, with a burst, by the
// generic cell rate algorithm (GCRA, ITU-T I.371). What the client has earned by honest
// work is spent before.
//
// A frame costs the server some µs, whatever it is. So whoever stays below rate, burst
// and savings together for a second takes less than a fifth of a CPU in it, and
// whoever does not is cut before the second is over.
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

// earn lets the client do so many more, as far as they can be saved.
func (b *budget) earn(n int) { b.saved = min(b.saved+n, b.most) }

// spend tells whether so many more may happen now. Now never goes backwards.
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

const (
	// mostStreams is how many streams are followed, four times as many as net/http
	// allows. Of more, only as many are open as the server has not refused yet.
	mostStreams = 1000
	// fewStreams is how many the memory is kept for when no stream is open.
	fewStreams = 16
)

// stream is a request that the server has not finished.
type stream struct {
	id   uint32
	sent bool // the client has sent all of it
}

// streams are the streams that are open, by their numbers. They are opened in that order.
type streams []stream

// find returns a stream that is open, else nil.
func (s streams) find(id uint32) *stream {
	if i, ok := s.index(id); ok {
		return &s[i]
	}
	return nil
}

// close forgets a stream. It is false if it was forgotten before.
func (s *streams) close(id uint32) bool {
	i, ok := s.index(id)
	if !ok {
		return false
	}
	*s = slices.Delete(*s, i, i+1)
	if len(*s) == 0 && cap(*s) > fewStreams {
		*s = nil
	}
	return true
}

func (s streams) index(id uint32) (int, bool) {
	return slices.BinarySearchFunc(s, id, func(t stream, id uint32) int { return cmp.Compare(t.id, id) })
}
