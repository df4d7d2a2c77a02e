package front

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tempomat/proxy/http1"
)

// Stream is a request of HTTP/2 and its answer. It is an http.ResponseWriter, for one goroutine at
// a time. Like a Response it does not guess the type of the content. Written data is sent when it
// is flushed, at the end, or when it is much.
type Stream struct {
	in asked

	session  *session
	id       uint32
	presence presence
	blank    *http.Request // whose context is presence
	keeps    bool          // the request outlives its answer
	tooLong  bool          // its head
	size     int           // of that, in bytes

	// Of the answer.
	status   int // 0: unknown yet
	length   int64
	written  int64
	bodyless bool

	// session.mu guards the following.
	err                   error // why it is over before its end; nil: it is not
	body                  incoming
	reads, writes         sync.Cond // of the body; of the answer
	readUntil, writeUntil time.Time // zero: any time
	continued             bool      // the client need not be told to go on with its body
	window                int       // how much of the answer's body the client takes yet
	wants                 int       // bytes that wait for that
	ended                 bool      // the answer was sent to its end
	urgency               uint8
	incremental           bool   // parts of the answer are of use to the client
	turn                  uint64 // when it was its turn last
}

func newStream() *Stream {
	s := &Stream{in: newAsked()}
	s.blank = new(http.Request).WithContext(&s.presence)
	return s
}

// begin makes a request from a header. It returns false if it isn't one (RFC 9113, 8.1.1). The
// handler checks what applies to both protocols.
func (s *Stream) begin(h *session, b *block, fields []hpack.HeaderField) bool {
	c := h.conn
	s.session, s.id, s.tooLong = h, b.of, b.tooLong
	s.presence.Context = c.presence.Context
	s.reads.L, s.writes.L = &h.mu, &h.mu
	s.length, s.window = -1, h.initial
	h.turns++
	s.turn, s.urgency, s.incremental = h.turns, usualUrgency, true
	s.body = incoming{s: s, left: -1, window: window{open: firstWindow, size: firstWindow}, came: b.ends}

	s.in.Request = *s.blank
	s.in.TLS, s.in.RemoteAddr = c.secure, c.remote
	s.in.Proto, s.in.ProtoMajor, s.in.ProtoMinor = "HTTP/2.0", 2, 0
	if s.tooLong {
		return true
	}
	var scheme string
	regular := false
	for _, f := range fields {
		s.size += len(f.Name) + len(f.Value)
		switch {
		case !f.IsPseudo():
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
			part = &s.in.Method
		case ":path":
			part = &s.in.RequestURI
		case ":authority":
			part = &s.in.Host
		case ":scheme":
			part = &scheme
		}
		if part == nil || *part != "" || f.Value == "" || !isSoundValue(f.Value) {
			return false
		}
		*part = f.Value
	}
	if cookies := s.in.fields.Values("Cookie"); len(cookies) > 1 { // they may come in several (8.2.3)
		s.in.fields.Set("Cookie", strings.Join(cookies, "; "))
	}
	if s.in.Host == "" {
		s.in.Host = s.in.fields.Get("Host")
	}
	connects := s.in.Method == http.MethodConnect
	switch {
	case s.in.Method == "", connects != (s.in.RequestURI == ""), connects != (scheme == ""), connects && s.in.Host == "":
		return false
	case connects:
		s.in.RequestURI = s.in.Host
	case scheme != "http" && scheme != "https":
		return false
	}
	s.in.fill("Trailer")
	return s.in.locate() == nil && s.frame(b.ends)
}

// frame finds out how long the body is, and what follows it.
func (s *Stream) frame(ends bool) bool {
	if lengths := s.in.fields.Values("Content-Length"); len(lengths) > 0 {
		n, err := strconv.ParseUint(lengths[0], 10, 63)
		if err != nil || len(lengths) > 1 || ends && n > 0 {
			return false
		}
		s.body.left = int64(n)
	}
	s.in.Body, s.in.ContentLength = http.NoBody, 0
	if !ends {
		s.in.Body, s.in.ContentLength = &s.body, s.body.left
		s.body.expects = strings.EqualFold(s.in.fields.Get("Expect"), "100-continue")
		s.keeps = true // who reads the body may do so for a moment longer
	}
	return true
}

// add takes in a field.
func (s *Stream) add(f hpack.HeaderField) {
	name := s.session.conn.server.memory.canonical.of(f.Name)
	if name == "Priority" {
		s.rank(f.Value)
	}
	s.in.fields.Add(name, f.Value)
}

// isSound reports whether a field may be in a request (RFC 9113, 8.2): those that are for the
// connection alone may not.
func isSound(f hpack.HeaderField) bool {
	for i := range len(f.Name) {
		if c := f.Name[i]; 'A' <= c && c <= 'Z' {
			return false
		}
	}
	switch f.Name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return false
	case "te":
		return f.Value == "trailers"
	}
	return http1.IsToken(f.Name) && isSoundValue(f.Value)
}

// isSoundValue reports whether a value reads alike for all (8.2.1).
func isSoundValue(v string) bool { return http1.IsText(v) && v == strings.Trim(v, " \t") }

// serve has the request served.
func (s *Stream) serve() {
	done := s.handle()
	h := s.session
	h.mu.Lock()
	s.finish(done)
	h.flush()
	h.done()
	h.mu.Unlock()
	if !s.keeps {
		s.clear()
		h.conn.server.memory.streams.Put(s)
	}
}

// handle calls the handler. It returns false if that panicked.
func (s *Stream) handle() (done bool) {
	c := s.session.conn
	defer func() {
		if done {
			return
		}
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // it is that value
			c.fails(p)
			if s.status == 0 {
				s.in.answer = answer{}
				s.WriteHeader(http.StatusInternalServerError)
				done = true
			}
		}
	}()
	if s.tooLong {
		s.refuse()
		return true
	}
	h := c.entrance.Handler
	if h == nil {
		h = c.server.handler
	}
	h.ServeHTTP(s, &s.in.Request)
	return true
}

// refuse answers a request whose head is too long.
func (s *Stream) refuse() {
	const text = "431: the request's header is too long.\n" + tooManyCookies
	s.in.answer.Add("Content-Type", "text/plain; charset=utf-8")
	s.in.answer.Add("Cache-Control", "no-store")
	s.in.answer.Add("Content-Length", strconv.Itoa(len(text)))
	s.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
	_, _ = s.Write([]byte(text)) // the client has gone
}

// finish ends the answer, and the stream.
func (s *Stream) finish(done bool) {
	h := s.session
	if s.err != nil || h.err != nil {
		return // it is over
	}
	if done && s.status == 0 {
		s.writeHeader(http.StatusOK)
	}
	if done && !s.ended && (s.length < 0 || s.bodyless || s.written == s.length) {
		_ = s.end() // then the stream has not ended
	}
	if s.err != nil || h.err != nil {
		return
	}
	switch {
	case !s.ended:
		h.sendReset(s.id, http2.ErrCodeInternal)
	case !s.body.came:
		h.sendReset(s.id, http2.ErrCodeNo) // the client need not send the rest (RFC 9113, 8.1)
	}
	h.floods.answered()
	h.remove(s, nil)
}

// end sends the end of the answer, and what follows its body.
func (s *Stream) end() error {
	if len(s.in.answer.trailer) == 0 || s.err != nil {
		return s.session.send(s, nil, true)
	}
	s.session.head(s, 0, s.in.answer.trailer, true)
	s.ended = true
	return nil
}

// Header implements http.ResponseWriter, for handlers of package net/http.
func (s *Stream) Header() http.Header { return s.in.answer.plain() }

// Fields are the answer's header: see Response.
func (s *Stream) Fields() *http1.Fields { return &s.in.answer.Fields }

// SetTrailer sets what follows the body: see Response.
func (s *Stream) SetTrailer(trailer http1.Fields) { s.in.answer.trailer = trailer }

// Keep keeps the request and its header valid after the handler has returned.
func (s *Stream) Keep() { s.keeps = true }

// Asked are the fields of the request's head: see Response.
func (s *Stream) Asked() *http1.Fields { return &s.in.fields }

// HeadSize is how many bytes the names and values of the head have.
func (s *Stream) HeadSize() int { return s.size }

// Trailer is what came after the request's body, once that was read to its end.
func (s *Stream) Trailer() http1.Fields { return s.body.trailer }

// Relays is for a Response.
func (s *Stream) Relays(string) {}

// Look is for a Response: of a stream the connection's goroutine notices that the client leaves.
func (s *Stream) Look() {}

// Streams is how many requests the client has under way.
func (s *Stream) Streams() int {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	return len(s.session.streams)
}

// SetReadDeadline is for http.ResponseController.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.limit(&s.readUntil, t, &s.reads) }

// SetWriteDeadline is for http.ResponseController.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.limit(&s.writeUntil, t, &s.writes) }

func (s *Stream) limit(until *time.Time, t time.Time, waits *sync.Cond) error {
	s.session.mu.Lock()
	defer s.session.mu.Unlock()
	*until = t
	waits.Broadcast()
	return nil
}

// WriteHeader implements http.ResponseWriter. One of an answer before the final one (1xx) is sent
// at once.
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
	if status >= http.StatusOK {
		s.decide(status)
	} else if status == http.StatusContinue {
		if s.continued {
			return
		}
		s.continued = true
	}
	for h.writing && len(h.out) >= sendSize && s.err == nil && h.err == nil {
		if s.wait(&h.room, s.writeUntil) != nil {
			return // it comes again as the answer is written
		}
	}
	if s.err != nil || h.err != nil {
		return
	}
	s.ended = status >= http.StatusOK && (s.bodyless || s.length == 0)
	before := s.in.answer.Fields
	if status < http.StatusOK {
		s.in.answer.merge()
	}
	h.head(s, status, s.in.answer.Fields, s.ended)
	if status < http.StatusOK {
		s.in.answer.Fields = before
		h.flush()
	}
}

// decide finds out how the answer will end.
func (s *Stream) decide(status int) {
	s.status = status
	s.bodyless = s.in.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	s.in.answer.merge()
	s.length = s.in.answer.length()
}

// isOfConnection reports fields that HTTP/2 does not have (RFC 9113, 8.2.2).
func isOfConnection(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade":
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
	s.written += int64(len(p))
	if err := h.send(s, p, s.written == s.length); err != nil {
		s.presence.leave()
		return 0, err
	}
	if s.ended {
		h.flush()
	}
	return len(p), nil
}

// FlushError is for http.ResponseController.
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

// clear forgets a request, so that it keeps nothing alive.
func (s *Stream) clear() {
	*s = Stream{in: s.in, blank: s.blank}
	s.in.clear()
}

// incoming is the body of a request. Another goroutine than the handler's may read it.
type incoming struct {
	s *Stream

	// session.mu guards the following.
	unread  bytes.Buffer
	left    int64 // announced bytes still to come; negative: unknown
	window  window
	expects bool // the client waits to be told to go on
	came    bool // all of it
	closed  bool // there is no reader
	trailer http1.Fields
}

// take takes in a piece; size counts for the windows.
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
	idle := size - len(p) // padding
	if b.closed {
		idle = size
	} else {
		_, _ = b.unread.Write(p) // to memory
	}
	b.opens(idle)
	b.s.reads.Signal()
	return http2.ErrCodeNo
}

// opens lets the client send this much more, and more at a time as long as it is read: a client
// that sends nothing long needs no wide window.
func (b *incoming) opens(n int) {
	h := b.s.session
	h.opens(0, h.received.read(n))
	if b.came {
		return
	}
	by := b.window.read(n)
	if by > 0 && 2*b.window.size <= widestWindow {
		b.window.open += b.window.size
		by += b.window.size
		b.window.size *= 2
	}
	h.opens(b.s.id, by)
}

// Read implements io.Reader. A client that waits to be asked for the body is.
func (b *incoming) Read(p []byte) (n int, err error) {
	s := b.s
	h := s.session
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	h.flush() // the client may wait for it, and more may arrive in the meantime
	for b.unread.Len() == 0 {
		switch {
		case s.err != nil:
			return 0, s.err
		case b.closed:
			return 0, http.ErrBodyReadAfterClose
		case b.came:
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
	n, _ = b.unread.Read(p) // it is not empty
	b.opens(n)
	h.flush()
	if b.unread.Len() > 0 {
		return n, nil
	}
	if b.unread.Cap() > outSize {
		b.unread = bytes.Buffer{} // another stream may need as much
	}
	if b.came {
		return n, io.EOF
	}
	return n, nil
}

// forget drops what has come, and returns how much that is.
func (b *incoming) forget() (size int) {
	size = b.unread.Len()
	b.unread = bytes.Buffer{}
	return size
}

// Close has nobody read it any more.
func (b *incoming) Close() error {
	h := b.s.session
	h.mu.Lock()
	defer h.mu.Unlock()
	b.closed = true
	b.opens(b.forget())
	return nil
}
