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
	// sendSize is how much a session sends at a time: a record of TLS.
	sendSize = 16 << 10
	// leastPiece is the least of a body that is worth a frame of its own, where there is more.
	leastPiece = 1 << 10
	// mostUnsent is how much waits to be sent before nothing more is read of the client.
	mostUnsent = 64 << 10
	// mostRounds is how often a goroutine sends what others have to send as well.
	mostRounds = 4
)

// sender is the sending side of a session. A goroutine appends what it has to send to the queue,
// and sends the queue unless another goroutine is doing so, which then takes it along. Bodies
// wait for the client's windows, and for each other by their urgency (RFC 9218).
type sender struct {
	err     error     // why nothing can be sent any more; nil: it can
	out     []byte    // what is to be sent next
	writing bool      // what was before it is being sent
	until   time.Time // the deadline of that
	room    sync.Cond // out was sent
	encoder *hpack.Encoder
	window  int       // how much the client takes yet of all bodies
	initial int       // and of a body, at first
	waiting []*Stream // to send the rest of a piece of a body
	turns   uint64    // that were taken
}

// frame begins a frame.
func (h *session) frame(kind http2.FrameType, flags http2.Flags, id uint32, length int) {
	if h.out == nil {
		h.out = h.conn.server.memory.frames.Get().(*[sendSize]byte)[:0]
	}
	h.number(uint32(length)<<8 | uint32(kind)) //nolint:gosec // up to longestFrame
	h.out = append(h.out, byte(flags))
	h.number(id)
}

// number writes a number of 32 bits.
func (h *session) number(n uint32) {
	h.out = binary.BigEndian.AppendUint32(h.out, n)
}

// opens tells the client that it may send so much more, of a stream or of all (0).
func (h *session) opens(id uint32, by int) {
	if by > 0 && h.err == nil {
		h.frame(http2.FrameWindowUpdate, 0, id, 4)
		h.number(uint32(by)) //nolint:gosec // a window's size
	}
}

// sendReset gives up a stream; frames of it may still be on their way.
func (h *session) sendReset(id uint32, why http2.ErrCode) {
	if h.given = append(h.given, id); len(h.given) > mostGiven {
		h.given = h.given[1:]
	}
	h.frame(http2.FrameRSTStream, 0, id, 4)
	h.number(uint32(why))
}

// goAway tells the client which request is the last one served.
func (h *session) goAway(last uint32, why http2.ErrCode) {
	h.frame(http2.FrameGoAway, 0, 0, 8)
	h.number(last)
	h.number(uint32(why))
}

// flush sends what there is, unless another goroutine does. h.mu is held, but not while this waits
// for the client.
func (h *session) flush() {
	for round := 0; len(h.out) > 0 && !h.writing && h.err == nil; round++ {
		if round == mostRounds {
			go func() { // it is others', who do not end
				h.mu.Lock()
				defer h.mu.Unlock()
				h.flush()
			}()
			return
		}
		h.write()
	}
}

// write sends what is to be sent.
func (h *session) write() {
	p := h.out
	h.out, h.writing = nil, true
	h.mu.Unlock()
	if idle := h.conn.server.o.Idle; idle > 0 {
		h.extend(time.Now().Add(idle))
	}
	_, err := h.conn.Write(p)
	if err == nil && cap(p) == sendSize {
		h.conn.server.memory.frames.Put((*[sendSize]byte)(p[:sendSize]))
	}
	h.mu.Lock()
	h.writing = false
	if err != nil {
		h.out = append(p, h.out...) // none of it has come
		h.fail(err)
	}
	h.room.Broadcast()
	h.wakeNext()
}

// extend gives the client more time to take what is sent. The writing goroutine calls it.
func (h *session) extend(until time.Time) {
	if until.Sub(h.until) >= time.Second {
		h.until = until
		_ = h.conn.SetWriteDeadline(until) // a connection that is closed says so when it is written to
	}
}

// fail ends the connection at once.
func (h *session) fail(why error) {
	if h.err == nil {
		h.err = why
		_ = h.conn.Close() // the client may have done so
	}
	h.cutStreams()
	h.room.Broadcast()
}

// send sends a piece of a body, and its end. It waits until the client takes it.
func (h *session) send(s *Stream, p []byte, ends bool) error {
	waits := false
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
		if len(h.out) > 0 && !h.writing {
			h.write() // it makes room, or the client is to see it before more is waited for
		} else if err := s.wait(&s.writes, s.writeUntil); err != nil {
			return err
		}
	}
}

// grant is how much of so many bytes of a body may be sent now.
func (h *session) grant(s *Stream, wants int) (n int, ok bool) {
	room := sendSize - len(h.out) - frameHead
	if room < min(wants, leastPiece) || room < 0 {
		return 0, false
	}
	if wants == 0 {
		return 0, true // the end alone takes nothing of a window
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
	if len(p) > 0 {
		h.floods.sentData(len(p))
	}
	if h.turns++; s.incremental {
		s.turn = h.turns
	}
}

// wakeNext wakes who is to send next.
func (h *session) wakeNext() {
	var next *Stream
	for _, s := range h.waiting {
		if (s.window > 0 || s.wants == 0) && (next == nil || s.before(next)) {
			next = s
		}
	}
	if next != nil {
		next.writes.Broadcast()
	}
}

// before tells whose turn it is: that of the more urgent one, of such the one that began first, and
// of those whose parts are of use the one that has waited for longer (RFC 9218, 10).
func (s *Stream) before(t *Stream) bool {
	if s.urgency != t.urgency {
		return s.urgency < t.urgency
	}
	return s.turn < t.turn
}

// rank takes in the urgency of an answer that its client asks for (RFC 9218, 4).
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

// usualUrgency is the urgency of an answer if its client asks for none.
const usualUrgency = 3

// wait waits for what the client does. h.mu is held, but not in the meantime.
func (s *Stream) wait(c *sync.Cond, until time.Time) error {
	if !until.IsZero() {
		left := time.Until(until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		h := s.session
		late := time.AfterFunc(left, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			c.Broadcast()
		})
		defer late.Stop()
	}
	c.Wait()
	return nil
}

// errReset is of a stream that either side has given up.
var errReset = errors.New("the stream was reset")

// head appends the head of an answer, or what follows its body (status 0).
func (h *session) head(s *Stream, status int, fields http1.Fields, ends bool) {
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
		if f.Key != "Content-Length" && !isOfConnection(f.Key) {
			h.put(h.conn.server.memory.lower.of(f.Key), f.Value)
		}
	}
	if status >= http.StatusOK {
		if s.length >= 0 && status != http.StatusNoContent {
			h.put("content-length", strconv.FormatInt(s.length, 10))
		}
		if !fields.Has("Date") {
			h.put("date", h.conn.server.dates.text())
		}
	}
	h.endBlock(at, s.id, ends)
}

// put appends a field of a header, whose name is in lower case. Values that differ from one answer
// to the next, or are secret, are not remembered. Those that are remembered last as long as the connection,
// and the text of a head is one string: they are copied out of it.
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
	_ = h.encoder.WriteField(f) // to memory
}

// spellings finds how names of fields are spelled otherwise: in lower case as in HTTP/2 (RFC 9113,
// 8.2), or as package net/http writes them. It keeps the first ones. Its methods may be called
// concurrently.
type spellings struct {
	spell func(name string) string
	known atomic.Pointer[map[string]string]
}

// mostSpellings is how many names are kept.
const mostSpellings = 256

func (s *spellings) of(name string) string {
	known := *s.known.Load()
	spelled, ok := known[name]
	if ok {
		return spelled
	}
	name = strings.Clone(name) // it may be spelled as it is, and would keep the memory of its whole head
	if len(known) == mostSpellings || len(name) > longestSpelled {
		return s.spell(name)
	}
	more := maps.Clone(known)
	more[name] = s.spell(name)
	s.known.Store(&more) // another one may be lost
	return more[name]
}

// longestSpelled is how long a name is that is kept, in bytes.
const longestSpelled = 64

// blockWriter is where a session's headers are encoded to.
type blockWriter session

// Write implements io.Writer.
func (w *blockWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// endBlock ends a header whose frame begins at a place of what is to be sent.
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
