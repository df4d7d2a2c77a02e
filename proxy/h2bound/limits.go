package h2bound

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
