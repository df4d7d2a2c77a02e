package front

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tempomat/proxy/http1"
)

// Stream is an HTTP/2 request and its answer. It is an http.ResponseWriter for one goroutine at a
// time. Like a Response, it doesn't guess the content type. It sends the written data when it is flushed, at
// the end, or when a frame is full.
type Stream struct {
	exchange
	session  *session
	id       uint32
	presence presence
	blank    *http.Request // empty request, whose context is presence
	refused  error         // why the handler doesn't get the request; nil: the handler gets it
	bound    Bound         // bounds the memory of answers that wait; nil: there is no bound

	// session.mu guards the fields below.
	err                   error // why the stream ended early; nil: it did not
	body                  incoming
	reads, writes         sync.Cond // signals for readers of the body, and for writers of the answer
	readUntil, writeUntil time.Time // deadlines of reading and writing; zero: none
	continued             bool      // whether a 100 (Continue) was sent
	window                int       // how much more of the answer's body the client accepts
	wants                 int       // number of bytes that wait for the window
	noted                 int64     // value of sender.sent when a deadline was set
	ended                 bool      // whether the whole answer was sent
	urgency               uint8
	incremental           bool   // whether the client can use parts of the answer
	turn                  uint64 // value of sender.turns when the stream last had its turn
}

func newStream() *Stream {
	s := &Stream{exchange: newExchange()}
	s.blank = new(http.Request).WithContext(&s.presence)
	return s
}

// begin makes a request from a header. It returns false if the header isn't a valid request (RFC 9113, 8.1.1).
// The handler makes the checks that both protocols share.
func (s *Stream) begin(h *session, b *block, fields []hpack.HeaderField) bool {
	c := h.conn
	s.session, s.id = h, b.of
	s.presence.Context = c.presence.Context
	s.reads.L, s.writes.L = &h.mu, &h.mu
	s.window = h.initial
	h.turns++
	s.turn, s.urgency, s.incremental = h.turns, usualUrgency, true
	s.body = incoming{s: s, left: -1, window: window{open: firstWindow, size: firstWindow}, came: b.ends}

	s.request = *s.blank
	s.request.TLS, s.request.RemoteAddr = c.secure, c.remote
	s.request.Proto, s.request.ProtoMajor, s.request.ProtoMinor = "HTTP/2.0", 2, 0
	if b.tooLong {
		s.refused = http1.ErrTooLong
		return true
	}
	var scheme string
	regular := false
	for _, f := range fields {
		s.size += len(f.Name) + len(f.Value)
		switch {
		case !f.IsPseudo():
			f.Value = strings.Trim(f.Value, " \t") // HTTP/1 drops it too; the User-Agents of some apps end in a space
			if regular = true; !isSound(f) {
				return false
			}
			s.add(f)
			continue
		case regular:
			return false
		}
		var part *string
		switch f.Name {
		case ":method":
			part = &s.request.Method
		case ":path":
			part = &s.request.RequestURI
		case ":authority":
			part = &s.request.Host
		case ":scheme":
			part = &scheme
		}
		if part == nil || *part != "" || f.Value == "" || !isSoundValue(f.Value) {
			return false
		}
		*part = f.Value
	}
	if cookies := s.asked.Values("Cookie"); len(cookies) > 1 { // clients may split cookies (8.2.3)
		s.asked.Set("Cookie", strings.Join(cookies, "; "))
	}
	if s.request.Host == "" {
		s.request.Host = s.asked.Get("Host")
	}
	connects := s.request.Method == http.MethodConnect
	switch {
	case s.request.Method == "", connects != (s.request.RequestURI == ""), connects != (scheme == ""), connects && s.request.Host == "":
		return false
	case connects:
		s.request.RequestURI = s.request.Host
	case scheme != "http" && scheme != "https":
		return false
	}
	s.fill()
	s.refused = s.locate()
	return s.frame(b.ends)
}

// frame finds out how long the body is, and whether the client expects a 100 (Continue).
func (s *Stream) frame(ends bool) bool {
	if lengths := s.asked.Values("Content-Length"); len(lengths) > 0 {
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || len(lengths) > 1 || ends && n > 0 {
			return false
		}
		s.body.left = int64(n)
	}
	for _, expects := range s.asked.Values("Expect") {
		if !strings.EqualFold(expects, "100-continue") {
			s.refused = http1.ErrExpectation
		}
		s.body.expects = !ends
	}
	s.request.Body, s.request.ContentLength = http.NoBody, 0
	if !ends {
		s.request.Body, s.request.ContentLength = &s.body, s.body.left
		s.keeps = true // another goroutine may still read the body for a moment after the answer
	}
	return true
}

// add adds a field.
func (s *Stream) add(f hpack.HeaderField) {
	name := s.session.conn.server.memory.canonical.of(f.Name)
	if name == "Priority" {
		s.rank(f.Value)
	}
	s.asked.Add(name, f.Value)
}

// isSound reports whether a request may have the field (RFC 9113, 8.2).
func isSound(f hpack.HeaderField) bool {
	for i := range len(f.Name) {
		if c := f.Name[i]; 'A' <= c && c <= 'Z' {
			return false
		}
	}
	if isOfConnection(f.Name) || f.Name == "te" && f.Value != "trailers" {
		return false
	}
	return http1.IsToken(f.Name) && isSoundValue(f.Value)
}

// isSoundValue reports whether all servers would read the same value (8.2.1).
func isSoundValue(v string) bool { return http1.IsText(v) && v == strings.Trim(v, " \t") }

// serve serves the request and ends the stream.
func (s *Stream) serve() {
	enlarge(0)
	done := s.handle()
	h := s.session
	h.mu.Lock()
	s.finish(done)
	h.flush()
	h.done()
	h.mu.Unlock()
	if !s.keeps && s.presence.done == nil { // after Done, goroutines of package context may still use the presence
		s.clear()
		h.conn.server.memory.streams.Put(s)
	}
}

// enlarge makes the stack of a new goroutine as large as a request needs. It would otherwise grow in two steps, and
// copying the frames of the handler's calls took a sixteenth of a stream's CPU time.
//
//go:noinline
func enlarge(at int) byte {
	var room [4 << 10]byte
	return room[at]
}

// handle calls the handler. It returns false if the answer is incomplete, because the handler panicked.
func (s *Stream) handle() (done bool) {
	if s.refused != nil {
		s.refuse()
		return true
	}
	done, failed := s.session.conn.handle(s, &s.request)
	if s.bound = nil; failed && s.status == 0 {
		s.fields, s.plain, s.trailer = nil, nil, nil // not the status, because a reader of the body may look at it
		s.WriteHeader(http.StatusInternalServerError)
		return true
	}
	return done
}

// refuse answers a request that the handler does not get.
func (s *Stream) refuse() {
	status := http1.StatusOf(s.refused)
	fields, text := s.session.conn.server.refusal(status, s.refused.Error())
	_ = s.SetWriteDeadline(time.Now().Add(drainSilence)) // never fails
	s.fields = append(s.fields, fields...)
	s.WriteHeader(status)
	_, _ = io.WriteString(s, text) // the client may have disconnected, or may not read
}

// finish ends the answer and the stream.
func (s *Stream) finish(done bool) {
	h := s.session
	if s.err != nil || h.err != nil {
		return // the stream has ended already
	}
	if done && s.status == 0 {
		s.writeHeader(http.StatusOK)
	}
	if done && !s.ended && s.presence.Err() == nil && (s.length < 0 || s.bodyless || s.written == s.length) {
		_ = s.end() // if this fails, the stream has ended
	}
	if s.err != nil || h.err != nil {
		return
	}
	switch {
	case !s.ended:
		h.sendReset(s.id, http2.ErrCodeInternal)
	case !s.body.came:
		h.sendReset(s.id, http2.ErrCodeNo) // tells the client not to send the rest of the body (RFC 9113, 8.1)
	}
	h.floods.answered()
	h.remove(s, nil)
}

// end sends the end of the answer, or the trailers.
func (s *Stream) end() error {
	if len(s.trailer) == 0 || s.err != nil {
		return s.session.send(s, nil, true)
	}
	s.session.head(s, 0, s.trailer, true)
	s.ended = true
	return nil
}

// Trailer returns the trailers of the request after its body was read to the end. A body of known length has none.
func (s *Stream) Trailer() http1.Fields { return s.body.trailer }

// Relays does nothing, because an answer over HTTP/2 has no reason phrase.
func (s *Stream) Relays(string) {}

// Look does nothing, because with HTTP/2 the connection's goroutine notices when the client disconnects. It
// exists because Response has the same method.
func (s *Stream) Look() {}

// Bound makes the answer ask the Bound for room whenever it must wait for its client, until the handler returns.
func (s *Stream) Bound(by Bound) { s.bound = by }

// SetReadDeadline is called by http.ResponseController.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.limit(&s.readUntil, t, &s.reads) }

// SetWriteDeadline is called by http.ResponseController.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.limit(&s.writeUntil, t, &s.writes) }

func (s *Stream) limit(until *time.Time, t time.Time, waits *sync.Cond) error {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	*until, s.noted = t, s.session.sent
	waits.Broadcast()
	return nil
}

// WriteHeader implements http.ResponseWriter. It sends an interim status (1xx) at once.
func (s *Stream) WriteHeader(status int) {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	s.writeHeader(status)
}

func (s *Stream) writeHeader(status int) {
	h := s.session
	if s.status != 0 {
		return
	}
	fields := &s.fields
	if status >= http.StatusOK {
		s.setStatus(status)
	} else if status == http.StatusContinue {
		if s.continued {
			return
		}
		s.continued, fields = true, new(http1.Fields) // the body's reader may send this while the handler changes its fields
	}
	for h.writing && len(h.out) >= sendSize && s.err == nil && h.err == nil {
		if s.waitForClient(&h.room, status >= http.StatusOK) != nil {
			return // if the answer is final, its stream was reset, and writing the body returns the same error
		}
	}
	if s.err != nil || h.err != nil || status < http.StatusOK && s.status != 0 {
		return
	}
	s.ended = status >= http.StatusOK && (s.bodyless || s.length == 0)
	h.head(s, status, *fields, s.ended)
	if status < http.StatusOK {
		h.flush()
	}
}

// isOfConnection reports whether the field is about the connection, and therefore not allowed in HTTP/2 (RFC
// 9113, 8.2.2).
func isOfConnection(name string) bool {
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	}
	return false
}

// Write implements http.ResponseWriter.
func (s *Stream) Write(p []byte) (int, error) {
	h := s.session
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.status == 0 {
		s.writeHeader(http.StatusOK)
	}
	switch {
	case s.bodyless:
		return len(p), nil
	case s.length >= 0 && s.written+int64(len(p)) > s.length:
		return 0, http.ErrContentLength
	case len(p) == 0:
		return 0, nil
	}
	if err := h.send(s, p, s.written+int64(len(p)) == s.length); err != nil {
		s.presence.leave()
		return 0, err
	}
	s.written += int64(len(p))
	if s.ended {
		h.flush()
	}
	return len(p), nil
}

// FlushError is called by http.ResponseController.
func (s *Stream) FlushError() error {
	h := s.session
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.status == 0 {
		s.writeHeader(http.StatusOK)
	}
	h.flush()
	if s.err != nil {
		return s.err
	}
	return h.err
}

// clear empties the stream for reuse. It keeps the memory, but no references.
func (s *Stream) clear() {
	*s = Stream{exchange: s.exchange, blank: s.blank}
	s.exchange.clear()
}

// incoming is the body of a request. Any goroutine may read it.
type incoming struct {
	s *Stream

	// session.mu guards the fields below.
	unread  [][]byte // pieces in the order in which they came
	at      int      // how much of the first piece was read
	size    int      // how many bytes are unread
	left    int64    // announced bytes that are still to come; negative: the length isn't announced
	window  window
	expects bool // whether the client waits for a 100 (Continue)
	came    bool // whether the end of the stream has arrived
	closed  bool // whether the handler has closed the body
	trailer http1.Fields
}

// take adds a piece to the body. size is how many bytes of the windows the piece uses, including its padding.
func (b *incoming) take(f *http2.DataFrame, size int) http2.ErrCode {
	p := f.Data()
	switch {
	case size > b.window.open:
		return http2.ErrCodeFlowControl
	case b.left >= 0 && int64(len(p)) > b.left, b.left >= 0 && f.StreamEnded() && int64(len(p)) != b.left:
		return http2.ErrCodeProtocol
	case b.left >= 0:
		b.left -= int64(len(p))
	}
	b.window.open -= size
	b.came = f.StreamEnded()
	idle := size - len(p) // size of the padding
	if b.closed {
		idle = size
	} else {
		b.store(p)
	}
	b.opens(idle)
	b.s.reads.Signal()
	return http2.ErrCodeNo
}

// opens lets the client send n more bytes. It also widens the stream's window step by step, because only
// a long upload needs a wide window.
func (b *incoming) opens(n int) {
	h := b.s.session
	h.opens(0, h.received.read(n))
	if b.came {
		return
	}
	by := b.window.read(n)
	if by > 0 && 2*b.window.size <= widestStream {
		b.window.open += b.window.size
		by += b.window.size
		b.window.size *= 2
	}
	h.opens(b.s.id, by)
}

// Read implements io.Reader. If the client waits for a 100 (Continue), Read sends it.
func (b *incoming) Read(p []byte) (n int, err error) {
	s := b.s
	h := s.session
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	h.flush() // the client may be waiting for the WINDOW_UPDATE; until it is sent, more of the body may arrive
	for b.size == 0 {
		switch {
		case s.err != nil:
			return 0, s.err
		case b.closed:
			return 0, http.ErrBodyReadAfterClose
		case b.whole():
			return 0, io.EOF
		case b.expects:
			b.expects = false
			s.writeHeader(http.StatusContinue)
			continue
		}
		if err := s.wait(&s.reads, s.readUntil); err != nil {
			return 0, err
		}
	}
	n = b.load(p)
	b.opens(n)
	h.flush()
	if b.whole() && b.size == 0 {
		return n, io.EOF
	}
	return n, nil
}

// whole reports whether all of the data has arrived. The end of the stream may come in a later frame, for which a
// body of known length doesn't wait. Otherwise a client that withholds the end would make the backend's work
// count as an upload.
func (b *incoming) whole() bool { return b.came || b.left == 0 }

// store appends a copy of p to the unread pieces. Because a fast upload brings thousands of pieces a second,
// store reuses memory.
func (b *incoming) store(p []byte) {
	b.size += len(p)
	for len(p) > 0 {
		last := len(b.unread) - 1
		if last < 0 || len(b.unread[last]) == cap(b.unread[last]) {
			b.unread = append(b.unread, b.room(len(p)))
			last++
		}
		piece := b.unread[last]
		n := copy(piece[len(piece):cap(piece)], p)
		b.unread[last], p = piece[:len(piece)+n], p[n:]
	}
}

// room returns memory for at least n bytes, and at most for 2n or leastPiece bytes, whichever is more.
func (b *incoming) room(n int) []byte {
	if n <= sendSize/2 {
		return make([]byte, 0, max(n, leastPiece))
	}
	return b.s.session.conn.server.memory.frames.Get().(*[sendSize]byte)[:0]
}

// load moves unread bytes to p.
func (b *incoming) load(p []byte) (n int) {
	for n < len(p) && b.size > 0 {
		piece := b.unread[0]
		took := copy(p[n:], piece[b.at:])
		n, b.at, b.size = n+took, b.at+took, b.size-took
		if b.at < len(piece) {
			break
		}
		b.at = 0
		if cap(piece) == leastPiece && len(b.unread) == 1 {
			b.unread[0] = piece[:0] // reused for the next of many small messages
			break
		}
		if cap(piece) == sendSize {
			b.s.session.conn.server.memory.frames.Put((*[sendSize]byte)(piece[:sendSize]))
		}
		b.unread = slices.Delete(b.unread, 0, 1)
	}
	return n
}

// forget discards the unread data and returns its size.
func (b *incoming) forget() (size int) {
	size = b.size
	b.unread, b.at, b.size = nil, 0, 0
	return size
}

// Close makes later reads fail.
func (b *incoming) Close() error {
	h := b.s.session
	h.mu.Lock()
	defer h.mu.Unlock()
	b.closed = true
	b.opens(b.forget())
	return nil
}
