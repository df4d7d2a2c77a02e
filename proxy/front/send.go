package front

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tempomat/proxy/http1"
)

const (
	// sendSize is how many bytes a session sends at a time, as many as a TLS record holds.
	sendSize = 16 << 10
	// leastPiece is the smallest piece, in bytes, of a longer body that gets a frame of its own.
	leastPiece = 1 << 10
	// mostUnsent is how many bytes may wait to be sent before a session stops reading from the client.
	mostUnsent = 64 << 10
	// mostRounds is how many times a goroutine sends frames that others have queued. After that it starts a
	// new goroutine for them.
	mostRounds = 4
)

// sender is the sending side of a session. A goroutine appends frames to the queue and then sends the queue. If
// another goroutine is already sending, it also sends the new frames. Bodies wait for the client's windows, and
// then take turns by urgency (RFC 9218).
type sender struct {
	err     error          // why nothing more can be sent; nil: sending is possible
	out     []byte         // the queue
	writing bool           // whether a goroutine is sending the previous content of the queue
	table   uint32         // size of the encoder's table
	until   time.Duration  // write deadline of the connection; see Server.since
	room    sync.Cond      // signals that the queue was sent, or that serving is 0
	encoder *hpack.Encoder // nil: the next head needs a new one
	window  int            // how many more bytes of all bodies the client accepts
	initial int            // how many bytes of a single body the client accepts when its stream begins
	waiting []*Stream      // streams with a piece of a body that doesn't fit into the windows yet
	turns   uint64         // how many turns streams have had so far
	sent    int64          // how many bytes of bodies were sent so far
}

// frame appends the head of a frame.
func (h *session) frame(kind http2.FrameType, flags http2.Flags, id uint32, length int) {
	if h.out == nil {
		h.out = h.conn.server.memory.frames.Get().(*[sendSize]byte)[:0]
	}
	h.number(uint32(length)<<8 | uint32(kind)) //nolint:gosec // up to longestFrame
	h.out = append(h.out, byte(flags))
	h.number(id)
}

// number appends a 32-bit number.
func (h *session) number(n uint32) {
	h.out = binary.BigEndian.AppendUint32(h.out, n)
}

// opens appends a WINDOW_UPDATE for a stream, or for the connection (0).
func (h *session) opens(id uint32, by int) {
	if by > 0 && h.err == nil {
		h.frame(http2.FrameWindowUpdate, 0, id, 4)
		h.number(uint32(by)) //nolint:gosec // a window's size
	}
}

// sendReset resets a stream. The client may still send frames for the stream.
func (h *session) sendReset(id uint32, why http2.ErrCode) {
	if h.given = append(h.given, id); len(h.given) > mostGiven {
		h.given = h.given[1:]
	}
	h.frame(http2.FrameRSTStream, 0, id, 4)
	h.number(uint32(why))
}

// goAway sends a GOAWAY, which tells the client the last request that is served.
func (h *session) goAway(last uint32, why http2.ErrCode) {
	h.frame(http2.FrameGoAway, 0, 0, 8)
	h.number(last)
	h.number(uint32(why))
}

// flush sends the queue, unless another goroutine is sending. h.mu is held, except while flush
// waits for the client.
func (h *session) flush() {
	for round := 0; len(h.out) > 0 && !h.writing && h.err == nil; round++ {
		if round == mostRounds {
			go func() { // the queue now holds only frames of other goroutines, and may never become empty
				h.mu.Lock()
				defer h.mu.Unlock()
				h.flush()
			}()
			return
		}
		h.write()
	}
}

// write sends the queue.
func (h *session) write() {
	p := h.out
	h.out, h.writing = nil, true
	if idle := h.conn.server.o.Idle; idle > 0 {
		h.extend(time.Now().Add(idle))
	}
	h.mu.Unlock()
	_, err := h.conn.Write(p)
	if err == nil && cap(p) == sendSize {
		h.conn.server.memory.frames.Put((*[sendSize]byte)(p[:sendSize]))
	}
	h.mu.Lock()
	h.writing = false
	if err != nil {
		h.out = append(p, h.out...) // nothing of p was written, so p goes back to the front of the queue
		h.fail(err)
	}
	h.room.Broadcast()
	h.wakeNext()
}

// extend postpones the write deadline. h.mu is held.
func (h *session) extend(until time.Time) {
	if since := h.conn.server.since(until); since-h.until >= time.Second {
		h.until = since
		_ = h.conn.SetWriteDeadline(until) // if the connection is closed, writing fails
	}
}

// fail closes the connection at once.
func (h *session) fail(why error) {
	if h.err == nil {
		h.err = why
		_ = h.conn.Close() // the client may have closed it already
	}
	h.cutStreams()
	h.room.Broadcast()
}

// send sends a piece of a body and, if ends is set, its end. It waits until the client accepts the
// whole piece.
func (h *session) send(s *Stream, p []byte, ends bool) error {
	waits, flushed := false, false
	defer func() {
		if waits {
			h.waiting = slices.DeleteFunc(h.waiting, func(w *Stream) bool { return w == s })
		}
		h.wakeNext()
	}()
	for {
		n, ok := h.grant(s, len(p))
		switch {
		case s.err != nil:
			return s.err
		case h.err != nil:
			return h.err
		case ok:
			flushed = false
			last := ends && n == len(p)
			h.data(s, p[:n], last)
			if p = p[n:]; len(p) == 0 {
				s.ended = s.ended || last
				return nil
			}
			continue
		}
		if s.wants = len(p); !waits {
			waits = true
			h.waiting = append(h.waiting, s)
		}
		if len(h.out) > 0 && !h.writing && !flushed {
			flushed = true
			h.flush() // sends the client the queue before this goroutine waits, or has another goroutine do so
		} else if err := s.waitForClient(&s.writes, true); err != nil {
			return err
		}
	}
}

// grant returns how many of the wanted bytes of a body may be sent now.
func (h *session) grant(s *Stream, wants int) (n int, ok bool) {
	room := sendSize - len(h.out) - frameHead
	if room < min(wants, leastPiece) || room < 0 {
		return 0, false
	}
	if wants == 0 {
		return 0, true // the end of a body uses no window
	}
	n = min(wants, room, s.window, h.window)
	if n <= 0 {
		return 0, false
	}
	for _, w := range h.waiting {
		if w != s && w.window > 0 && w.before(s) {
			return 0, false
		}
	}
	return n, true
}

// data appends a piece of a body.
func (h *session) data(s *Stream, p []byte, ends bool) {
	var flags http2.Flags
	if ends {
		flags = http2.FlagDataEndStream
	}
	h.frame(http2.FrameData, flags, s.id, len(p))
	h.out = append(h.out, p...)
	s.window -= len(p)
	h.window -= len(p)
	if h.sent += int64(len(p)); len(p) > 0 {
		h.floods.sentData(len(p))
	}
	if s.written >= mostUrgent {
		s.urgency, s.incremental = leastUrgency, true
	}
	if h.turns++; s.incremental {
		s.turn = h.turns
	}
}

// wakeNext wakes the stream whose turn it is. The end of a body (wants is 0) needs no window.
func (h *session) wakeNext() {
	var next *Stream
	for _, s := range h.waiting {
		if (s.wants == 0 || s.window > 0 && h.window > 0) && (next == nil || s.before(next)) {
			next = s
		}
	}
	if next != nil {
		next.writes.Broadcast()
	}
}

// before reports whether s goes before t. The more urgent stream goes first. Among equally urgent ones, the
// older one goes first or, if the client can use parts of the answers, the one that has waited longer (RFC
// 9218, 10).
func (s *Stream) before(t *Stream) bool {
	if s.urgency != t.urgency {
		return s.urgency < t.urgency
	}
	return s.turn < t.turn
}

// rank sets the urgency from the client's Priority field (RFC 9218, 4).
func (s *Stream) rank(says string) {
	s.urgency, s.incremental = usualUrgency, false
	for part := range strings.SplitSeq(says, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "u":
			if u, err := strconv.ParseUint(value, 10, 8); err == nil && u <= 7 {
				s.urgency = uint8(u)
			}
		case "i":
			s.incremental = value == "" || value == "?1"
		}
	}
}

const (
	// usualUrgency is the urgency of an answer whose request has no Priority field.
	usualUrgency = 3
	// mostUrgent is how many bytes of an answer are sent with its urgency, and the rest with leastUrgency. Otherwise
	// a large download would stop less urgent answers for minutes, until their deadlines reset them.
	mostUrgent   = 1 << 20
	leastUrgency = 7
	// steadily is how many bytes of other answers a client must take before a deadline is postponed by drainTime.
	steadily = 128 << 10
)

// wait waits for a signal until a deadline. h.mu is held, except during the wait.
func (s *Stream) wait(c *sync.Cond, until time.Time) error {
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		h, fired := s.session, false
		late := time.AfterFunc(left, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			fired = true
			c.Broadcast()
		})
		defer func() {
			for !late.Stop() && !fired {
				c.Wait() // the timer's goroutine is about to signal, and the stream must not be reused before that
			}
		}()
	}
	c.Wait()
	return nil
}

// Bound bounds the memory of answers that wait because their clients don't read. Its methods are called by the
// goroutine that writes the answer.
type Bound interface {
	Take() (n int)  // reserves memory for an answer that must wait, and returns its size; 0: there is no room
	GiveBack(n int) // releases the memory when the answer no longer waits
}

// waitForClient waits like wait. A wait for a final answer needs room within the bound. Without room, or after the
// deadline, the stream is reset, because a part of the answer would be missing. The answer whose body has waited
// longest on its connection always has room, because the limit on connections allows for one answer, as with HTTP/1.
// If a client with a slow link takes more urgent answers meanwhile, the deadline is postponed.
func (s *Stream) waitForClient(c *sync.Cond, final bool) error {
	h := s.session
	if final && s.bound != nil && (len(h.waiting) == 0 || h.waiting[0] != s) {
		n := s.bound.Take()
		if n == 0 {
			return s.abort(errReset)
		}
		defer s.bound.GiveBack(n)
	}
	err := s.wait(c, s.writeUntil)
	if err != nil && final && s.window > 0 && h.sent-s.noted >= steadily {
		s.noted, s.writeUntil, err = h.sent, time.Now().Add(drainTime), nil
	}
	if err != nil && final {
		return s.abort(err)
	}
	return err
}

// abort resets the stream of an answer that the client doesn't take, and returns why.
func (s *Stream) abort(why error) error {
	h := s.session
	h.sendReset(s.id, http2.ErrCodeInternal) // other codes let the client repeat the request, which could then be executed twice
	h.floods.answered()
	h.remove(s, why)
	h.flush()
	return why
}

// errReset is the error of a stream that either side has reset.
var errReset = errors.New("the stream was reset")

// head appends the head of an answer, or its trailers (status 0).
func (h *session) head(s *Stream, status int, fields http1.Fields, ends bool) {
	if h.encoder == nil {
		h.encoder = hpack.NewEncoder((*blockWriter)(h))
		h.encoder.SetMaxDynamicTableSize(0) // tells the client to empty its table as well
		h.encoder.SetMaxDynamicTableSize(h.table)
	}
	at := len(h.out)
	h.frame(http2.FrameHeaders, 0, s.id, 0)
	switch status {
	case 0:
	case http.StatusOK:
		h.put(":status", "200")
	default:
		h.put(":status", strconv.Itoa(status))
	}
	for _, f := range fields {
		if name := h.conn.server.memory.lower.of(f.Key); name != "content-length" && !isOfConnection(name) {
			h.put(name, f.Value)
		}
	}
	if status >= http.StatusOK {
		if s.length >= 0 && status != http.StatusNoContent {
			h.put("content-length", strconv.FormatInt(s.length, 10))
		}
		if !fields.Has("Date") {
			h.put("date", h.conn.server.memory.now())
		}
	}
	h.endBlock(at, s.id, ends)
}

// put appends a field whose name is in lower case. It keeps two kinds of values out of the HPACK table:
// secrets, and values that change with each answer, because remembering them saves nothing. A remembered value
// stays in memory as long as the connection. Therefore put clones the value, which would otherwise keep the
// whole head in memory.
func (h *session) put(name, value string) {
	f := hpack.HeaderField{Name: name, Value: value}
	switch name {
	case "set-cookie", "content-length", "content-range", "etag", "last-modified", "location", "x-request-id":
		f.Sensitive = true
	default:
		if len(value) < tableSize {
			f.Value = strings.Clone(value)
		}
	}
	_ = h.encoder.WriteField(f) // can't fail, because it writes to memory
}

// spellings caches field names in another spelling: in lower case for HTTP/2 (RFC 9113, 8.2), or as package
// net/http writes them. Its methods may be called concurrently.
type spellings struct {
	spell func(name string) string
	known atomic.Pointer[map[string]string]
}

// mostSpellings is how many names are cached.
const mostSpellings = 256

func (s *spellings) of(name string) string {
	known := *s.known.Load()
	spelled, ok := known[name]
	if ok {
		return spelled
	}
	name = strings.Clone(name) // a substring would keep its whole head in memory
	if len(known) == mostSpellings || len(name) > longestSpelled {
		return s.spell(name)
	}
	more := maps.Clone(known)
	more[name] = s.spell(name)
	s.known.Store(&more) // if another goroutine stores at the same time, one name is lost
	return more[name]
}

// longestSpelled is the longest name that is cached, in bytes.
const longestSpelled = 64

// blockWriter appends encoded headers to a session's queue.
type blockWriter session

// Write implements io.Writer.
func (w *blockWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// endBlock completes the header whose frame begins at the given offset in the queue.
func (h *session) endBlock(at int, id uint32, ends bool) {
	var flags http2.Flags
	if ends {
		flags = http2.FlagHeadersEndStream
	}
	n := len(h.out) - at - frameHead
	if n <= longestFrame {
		binary.BigEndian.PutUint32(h.out[at:], uint32(n)<<8|uint32(http2.FrameHeaders)) //nolint:gosec // up to longestFrame
		h.out[at+4] = byte(flags | http2.FlagHeadersEndHeaders)
		return
	}
	rest, kind := bytes.Clone(h.out[at+frameHead:]), http2.FrameHeaders
	h.out = h.out[:at]
	for len(rest) > 0 {
		n = min(len(rest), longestFrame)
		if n == len(rest) {
			flags |= http2.FlagHeadersEndHeaders
		}
		h.frame(kind, flags, id, n)
		h.out = append(h.out, rest[:n]...)
		rest, kind, flags = rest[n:], http2.FrameContinuation, 0
	}
}
