package front

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"tempomat/proxy/http1"
)

const (
	preface = http2.ClientPreface
	// mostStreams is the number of requests that may be in progress on a connection. The largest pages make a
	// browser send about as many at once.
	mostStreams = 250
	// mostHandlers is the number of handlers that may run at once. It exceeds mostStreams because a handler
	// notices only after a while that the client has cancelled its request.
	mostHandlers = 2 * mostStreams
	// fewStreams is the longest list of streams whose memory is reused.
	fewStreams = 16
	// longestFrame is the longest frame in either direction, in bytes. RFC 9113 allows no smaller
	// limit (6.5.2).
	longestFrame = 16 << 10
	frameHead    = 9
	// fieldOverhead is how many bytes each field adds to the size of a header, in addition to its text (6.5.2).
	fieldOverhead = 32
	// mostGiven is the number of streams reset by this side that are remembered.
	mostGiven = 32
	// firstWindow is how many bytes either side may send before the first WINDOW_UPDATE (6.9.2).
	firstWindow = 65535
	// widestWindow is the largest number of unread bytes that a client may have sent on one connection. A trusted
	// proxy's connection may hold as much for each of manyClients.
	widestWindow = 1 << 20
	// widestStream is the same for a stream whose body is read as fast as it arrives. If that body is then no longer
	// read, other uploads of the connection still have the other half of its window.
	widestStream = widestWindow / 2
	// tableSize is the largest HPACK table of either side, in bytes (RFC 7541, 4.2).
	tableSize = 4 << 10
	// manyClients is the factor by which the budgets of a trusted proxy's connection exceed those of a
	// client's connection. A proxy's connection carries up to mostStreams requests at a time, and a browser
	// that loads a page makes about 30.
	manyClients = 8
	// warnTime is how long a client may take to answer the first GOAWAY.
	warnTime = time.Second
)

// session is an HTTP/2 connection (RFC 9113). The connection's goroutine only reads frames. Each request has
// its own goroutine, which also sends the answer.
type session struct {
	conn *conn

	// Only the connection's goroutine uses these fields.
	hailed  bool // whether the client's preface has arrived
	rests   bool // whether another goroutine, with a small stack, must go on waiting
	torn    bool // whether a read was interrupted in the middle of a frame
	decoder *hpack.Decoder
	reading *reading // borrowed memory; nil: nothing is being read
	block   block    // changed with mu held, because done looks at it
	pieces  []byte   // pieces of block except for the last one; they are joined here, because the decoder would keep their memory

	mu       sync.Mutex // guards the fields below
	floods   floods
	streams  []*Stream // open streams, in the order of their numbers
	newest   uint32    // the highest stream number so far
	greeted  bool      // whether the client's SETTINGS have arrived
	retires  bool      // whether the server is shutting down
	leaving  leaving
	warned   time.Duration // when leaving became warns; see Server.since
	given    []uint32      // streams that this side has reset recently; the client may still send frames for them
	serving  int           // number of requests whose handler has not returned
	received window        // window of all streams together

	sender
}

// leaving is the state of a session's shutdown (6.8).
type leaving uint8

const (
	stays leaving = iota
	warns         // the first GOAWAY was sent; requests that are already in transit are still served
	left          // the second GOAWAY was sent, which names the last request that is served
)

// block is a header or trailer that is being read.
type block struct {
	of      uint32 // number of the stream; 0: no block is being read
	kind    blockKind
	ends    bool // whether the block ends the message
	size    int  // size of the fields, as RFC 9113 counts it (6.5.2)
	tooLong bool
	slow    bool // whether the block came in parts, and the connection waited for the rest
	long    bool // whether the block holds a place among the long heads
}

type blockKind uint8

const (
	opening blockKind = iota // header of a request
	trailing
	ignored // block of a stream that no longer exists
)

// reading is the memory that a session borrows while it reads frames.
type reading struct {
	*http2.Framer
	of     *session
	fields []hpack.HeaderField // fields of the block
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	for {
		n, err := r.of.conn.in.Read(p)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !r.of.tend() {
			return n, err
		}
		r.of.torn = true
		r.of.conn.rested.Store(true) // in the middle of a frame the session can't move to another goroutine, so the sweep must not wake it again
	}
}

// window holds how many more bytes the client may send, and how many of them aren't announced yet.
type window struct {
	open   int
	size   int  // full size
	unsaid int  // bytes read since the last WINDOW_UPDATE
	shared bool // whether several streams use the window
}

// read counts n bytes that were read. It returns by how many bytes to open the window; 0: too few for a
// WINDOW_UPDATE yet. A shared window opens sooner if little of it is open. Otherwise unread bytes of some streams, if
// they take more than three quarters of it, would stop all other uploads: these could never read a quarter.
func (w *window) read(n int) (opens int) {
	w.unsaid += n
	enough := w.size / 4
	if w.shared {
		enough = min(enough, max(w.open, leastPiece))
	}
	if w.unsaid < enough {
		return 0
	}
	opens, w.unsaid = w.unsaid, 0
	w.open += opens
	return opens
}

// serveHTTP2 serves an HTTP/2 connection until it ends.
func (c *conn) serveHTTP2() {
	h := &session{conn: c, floods: c.server.unspent.client}
	clients := 1
	if c.trusted {
		h.floods, clients = c.server.unspent.proxy, manyClients
	} else {
		h.floods.address = addressOf(c.server.addresses, c.peer)
	}
	h.decoder = hpack.NewDecoder(tableSize, h.field)
	h.room.L = &h.mu
	h.encoder, h.table = hpack.NewEncoder((*blockWriter)(h)), tableSize
	h.window, h.initial = firstWindow, firstWindow
	h.received = window{open: clients * widestWindow, size: clients * widestWindow, shared: true}
	c.mu.Lock()
	c.session = h
	c.mu.Unlock()
	h.run()
}

// run serves the session until it ends, in one goroutine after another (see conn.rest).
func (h *session) run() {
	defer h.conn.recovers()
	if h.serve() {
		h.forget()
		go h.run()
		return
	}
	h.conn.end()
}

// serve reads frames. It returns true if another goroutine must continue.
func (h *session) serve() (rests bool) {
	defer func() {
		if !rests {
			h.end()
		}
	}()
	if !h.hailed && !h.greets() {
		return false
	}
	h.hailed = true
	for h.conn.in.Buffered() > 0 || h.await() {
		if h.rests {
			h.rests = false
			return true
		}
		if !h.next() {
			return false
		}
	}
	return false
}

// forget frees the memory of the encoder.
func (h *session) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.encoder = nil
}

// greets reads the client's preface and sends this side's settings.
func (h *session) greets() bool {
	var begin [len(preface)]byte
	if h.conn.in.Buffered() == 0 && !h.await() {
		return false
	}
	h.borrow()
	if _, err := io.ReadFull(h.reading, begin[:]); err != nil || string(begin[:]) != preface {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	settings := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: mostStreams},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(h.conn.server.o.MaxHead)}, //nolint:gosec // some KB
		{ID: http2.SettingNoRFC7540Priorities, Val: 1},
	}
	h.frame(http2.FrameSettings, 0, 0, 6*len(settings))
	for _, s := range settings {
		h.out = binary.BigEndian.AppendUint16(h.out, uint16(s.ID))
		h.number(s.Val)
	}
	h.floods.control.earn(1) // the client will acknowledge the settings
	h.opens(0, h.received.size-firstWindow)
	return true
}

// await waits for the next bytes from the client. It holds no memory while it waits.
func (h *session) await() bool {
	c := h.conn
	if h.torn {
		h.torn = false
		c.rested.Store(false)
	}
	for {
		h.giveBack()
		n, err := c.readFirst()
		switch {
		case n > 0:
			if c.in.Resume(c.Conn, c.memory[:], n); c.try == nil {
				_ = c.in.More() // reads the frames of the record together; reading a frame returns the same error
			}
			return true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false
		}
		rests := c.rest()
		if !h.tend() {
			return false
		}
		if h.rests = rests; rests {
			return true
		}
	}
}

// borrow borrows the memory for reading frames.
func (h *session) borrow() {
	if h.reading == nil {
		h.reading = h.conn.server.memory.readings.Get().(*reading)
		h.reading.of = h
	}
}

// giveBack returns the memory for reading frames, and the connection's memory.
func (h *session) giveBack() {
	h.conn.giveBack()
	if r := h.reading; r != nil && h.block.of == 0 {
		r.of, r.fields = nil, emptied(r.fields)
		h.reading = nil
		h.conn.server.memory.readings.Put(r)
	}
}

// emptied returns the list without its fields. It keeps the list's memory, unless it is large.
func emptied(fields []hpack.HeaderField) []hpack.HeaderField {
	if cap(fields) > 256 {
		return nil
	}
	clear(fields)
	return fields[:0]
}

func newReading() *reading {
	r := &reading{}
	r.Framer = http2.NewFramer(nil, r)
	r.SetMaxReadFrameSize(longestFrame)
	r.SetReuseFrames()
	return r
}

// next reads a frame and handles it. It returns false if the connection has ended.
func (h *session) next() bool {
	h.borrow()
	head, err := h.reading.ReadFrameHeader()
	var f http2.Frame
	if err == nil {
		f, err = h.reading.ReadFrameForHeader(head)
	}
	var ofStream http2.StreamError
	if errors.As(err, &ofStream) && (head.Type == http2.FrameHeaders || head.Type == http2.FrameContinuation) {
		err = http2.ConnectionError(ofStream.Code) // the HPACK tables of both sides may now differ, so no more headers can be read
	}
	now := time.Since(h.conn.server.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return false // another goroutine failed to send; a new stream would outlive the session
	}
	if err == nil {
		err = h.take(now, f)
	}
	if errors.As(err, &ofStream) {
		err = h.refuse(now, ofStream)
	}
	if err != nil {
		h.breaks(err)
		return false
	}
	if h.conn.in.Buffered() == 0 {
		h.flush()
	}
	for len(h.out) > mostUnsent && h.err == nil { // the client sends frames, but doesn't read the answers
		if h.writing {
			h.room.Wait()
		} else {
			h.flush()
		}
	}
	if late := h.floods.small.late(now); late > 0 {
		h.mu.Unlock()
		time.Sleep(late)
		h.mu.Lock()
	}
	return h.err == nil && !(h.leaving == left && h.serving == 0)
}

// breaks tells the client why the connection ends, if the client caused the end.
func (h *session) breaks(err error) {
	var code http2.ConnectionError
	var flood Flood
	switch {
	case errors.As(err, &flood):
		h.conn.server.o.Log.Warn("closed an HTTP/2 connection because of a flood from its client", zap.String("client", h.conn.remote), zap.Error(flood))
		code = http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ConnectionError(http2.ErrCodeFrameSize)
	case !errors.As(err, &code):
		return // the client has disconnected
	}
	h.goAway(h.newest, http2.ErrCode(code))
	h.leaving = left
	now := time.Now()
	_ = h.conn.SetWriteDeadline(now.Add(warnTime))            // if the connection is closed, writing fails
	h.until = h.conn.server.since(now) + h.conn.server.o.Idle // so that extend doesn't change this deadline
	for h.writing {
		h.room.Wait() // another goroutine is sending
	}
	if h.err == nil {
		h.write()
	}
	if flood != "" {
		h.fail(flood)
	}
}

// end ends the connection and waits until no handler uses it.
func (h *session) end() {
	c := h.conn
	h.mu.Lock()
	for h.leaving == left && h.err == nil && h.writing {
		h.room.Wait() // another goroutine is still sending the last answers
	}
	lingers := h.leaving == left && h.err == nil
	c.mu.Lock()
	c.session, c.lingers = nil, lingers
	c.mu.Unlock()
	if lingers {
		h.flush()
	} else {
		h.fail(errFailed)
	}
	h.cutStreams()
	h.blockEnds()
	h.pieces = nil
	h.mu.Unlock()
	h.reading = nil // the Framer may be in the middle of a frame
	c.giveBack()
	if lingers {
		c.drainClient()
	}
	_ = c.Close() // the client may have closed it already
	h.mu.Lock()
	for h.serving > 0 {
		h.room.Wait()
	}
	h.mu.Unlock()
}

// cutStreams ends all streams, so that handlers see that the client has disconnected.
func (h *session) cutStreams() {
	for len(h.streams) > 0 {
		h.remove(h.streams[len(h.streams)-1], errFailed)
	}
}

// take handles a frame.
func (h *session) take(now time.Duration, f http2.Frame) error {
	if _, ok := f.(*http2.SettingsFrame); !ok && !h.greeted {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		return h.takeData(now, f)
	case *http2.HeadersFrame:
		if err := h.beginBlock(now, f); err != nil {
			return err
		}
		return h.takeBlock(now, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.ContinuationFrame:
		if err := h.floods.header(now, false, int(f.Length)); err != nil {
			return err
		}
		return h.takeBlock(now, f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.RSTStreamFrame:
		return h.takeReset(now, f)
	case *http2.SettingsFrame:
		return h.takeSettings(now, f)
	case *http2.WindowUpdateFrame:
		return h.takeWindow(now, f)
	case *http2.PingFrame:
		return h.takePing(now, f)
	case *http2.GoAwayFrame:
		return h.floods.control.charge(now, settingsCost, Control)
	case *http2.PriorityUpdateFrame:
		if s := h.find(f.PrioritizedStreamID); s != nil {
			s.rank(f.Priority)
			h.wakeNext() // the stream that was woken last may have to wait for this one
		}
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return h.floods.control.charge(now, 1, Control)
}

// beginBlock begins to read a header or a trailer.
func (h *session) beginBlock(now time.Duration, f *http2.HeadersFrame) error {
	if err := h.floods.header(now, true, int(f.Length)); err != nil {
		return err
	}
	h.block = block{of: f.StreamID, ends: f.StreamEnded()}
	s := h.find(f.StreamID)
	switch {
	case f.StreamID%2 == 0:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case f.StreamID > h.newest:
		if h.leaving == left {
			h.block.kind = ignored
		}
	case s == nil && slices.Contains(h.given, f.StreamID):
		h.block.kind = ignored
	case s == nil:
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	default:
		h.block.kind = trailing
	}
	h.decoder.SetEmitEnabled(h.block.kind != ignored)
	return nil
}

// takeBlock handles one piece of a header.
func (h *session) takeBlock(now time.Duration, piece []byte, ends bool) error {
	if !ends {
		h.pieces = append(h.pieces, piece...)
		if len(h.pieces) > inSize && !h.block.long {
			if h.block.long, _ = h.conn.server.long.Take(h.conn.peer, 1); !h.block.long {
				return LongHeaders
			}
		}
		if !h.block.slow {
			h.block.slow = true
			h.conn.begin(time.Now()) // the rest of the header gets as much time as a head of HTTP/1, even during requests
		}
		return nil
	}
	if err := h.decode(piece); err != nil {
		return http2.ConnectionError(http2.ErrCodeCompression)
	}
	b := h.block
	h.blockEnds()
	fields := h.reading.fields
	h.reading.fields = fields[:0]
	defer clear(fields)
	switch {
	case b.slow && h.serving == 0:
		h.conn.waits(time.Now())
	case b.slow:
		h.conn.work() // if the connection is closed, the next read fails
	}
	if b.kind == opening {
		return h.open(now, &b, fields)
	}
	if err := h.floods.control.charge(now, 1, Control); err != nil || b.kind == ignored {
		return err
	}
	return h.trail(&b, fields)
}

// blockEnds records that the block is complete, or that the rest of it isn't needed.
func (h *session) blockEnds() {
	if h.block.of = 0; h.block.long {
		h.block.long = false
		h.conn.server.long.GiveBack(h.conn.peer, 1)
	}
}

// decode decodes a header, whose last piece is given. As long as the connection lives, the decoder keeps text
// that came in several pieces, and the last slice that it read. To limit this memory, decode gives the decoder
// each header in one piece, and after a long header a short field that is ignored.
func (h *session) decode(last []byte) error {
	isLong := h.pieces != nil
	if isLong {
		last, h.pieces = append(h.pieces, last...), nil
	}
	if _, err := h.decoder.Write(last); err != nil {
		return err
	}
	if err := h.decoder.Close(); err != nil || !isLong {
		return err
	}
	const methodIsGet = "\x82"
	h.decoder.SetEmitEnabled(false)
	_, err := h.decoder.Write([]byte(methodIsGet))
	return errors.Join(err, h.decoder.Close())
}

// field handles one field of a header.
func (h *session) field(f hpack.HeaderField) {
	h.block.size += int(f.Size())
	if h.block.size > h.conn.server.o.MaxHead {
		h.block.tooLong = true
		h.decoder.SetEmitEnabled(false)
		return
	}
	h.reading.fields = append(h.reading.fields, f)
}

// open begins a request.
func (h *session) open(now time.Duration, b *block, fields []hpack.HeaderField) error {
	h.newest = b.of
	if err := h.floods.request(now); err != nil {
		return err
	}
	inProgress := len(h.streams)
	if inProgress >= mostStreams {
		for _, s := range h.streams {
			if s.ended && s.body.came { // the client may have the whole answer although the handler hasn't returned yet
				inProgress--
			}
		}
	}
	if inProgress >= mostStreams || h.serving >= mostHandlers {
		return http2.StreamError{StreamID: b.of, Code: http2.ErrCodeRefusedStream}
	}
	s := h.conn.server.memory.streams.Get().(*Stream)
	if !s.begin(h, b, fields) {
		s.clear()
		h.conn.server.memory.streams.Put(s)
		return http2.StreamError{StreamID: b.of, Code: http2.ErrCodeProtocol}
	}
	if h.serving == 0 && (!h.conn.work() || !h.conn.place.Busy()) {
		return io.EOF // the connection was closed to make room for another
	}
	h.serving++
	h.streams = append(h.streams, s)
	go s.serve()
	return nil
}

// trail handles the trailers of a request.
func (h *session) trail(b *block, fields []hpack.HeaderField) error {
	s := h.find(b.of)
	switch {
	case s == nil: // the stream was reset in the meantime
		return nil
	case s.body.came:
		return http2.StreamError{StreamID: b.of, Code: http2.ErrCodeStreamClosed}
	case !b.ends || b.tooLong || s.body.left > 0,
		len(fields) > http1.FewTrailers || b.size-fieldOverhead*len(fields) > http1.ShortTrailer: // HTTP/1 has the same bounds
		return http2.StreamError{StreamID: b.of, Code: http2.ErrCodeProtocol}
	}
	for _, f := range fields {
		if f.IsPseudo() || !isSound(f) {
			return http2.StreamError{StreamID: b.of, Code: http2.ErrCodeProtocol}
		}
	}
	for _, f := range fields {
		if s.body.left < 0 { // otherwise the body may already be read to its end
			s.body.trailer.Add(h.conn.server.memory.canonical.of(f.Name), f.Value)
		}
	}
	s.body.came = true
	s.reads.Signal()
	return nil
}

func (h *session) takeData(now time.Duration, f *http2.DataFrame) error {
	size, s := int(f.Length), h.find(f.StreamID)
	if size > h.received.open {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	h.received.open -= size
	if s == nil || s.body.came {
		h.opens(0, h.received.read(size))
	}
	switch {
	case h.isIdle(f.StreamID):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case s == nil && size == 0:
		return h.floods.control.charge(now, 1, Control)
	case s == nil:
		h.floods.small.spend(now, 1)
		if f.StreamID <= h.newest && !slices.Contains(h.given, f.StreamID) {
			h.sendReset(f.StreamID, http2.ErrCodeStreamClosed)
		}
		return nil
	case s.body.came:
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
	}
	code := s.body.take(f, size)
	switch {
	case code != http2.ErrCodeNo:
		h.opens(0, h.received.read(size))
		return http2.StreamError{StreamID: f.StreamID, Code: code}
	case f.StreamEnded(): // a request can do this at most once
	case size == 0:
		return h.floods.control.charge(now, 1, Control)
	case size < smallData:
		h.floods.small.spend(now, 1)
	}
	return nil
}

func (h *session) takeReset(now time.Duration, f *http2.RSTStreamFrame) error {
	s := h.find(f.StreamID)
	switch {
	case h.isIdle(f.StreamID):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case s == nil:
		return h.floods.control.charge(now, 1, Control)
	}
	h.remove(s, errReset)
	return h.floods.reset(now)
}

func (h *session) takeSettings(now time.Duration, f *http2.SettingsFrame) error {
	if f.IsAck() {
		if !h.greeted {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return h.floods.control.charge(now, 1, Control)
	}
	initial := h.initial
	err := f.ForeachSetting(func(s http2.Setting) error {
		if err := s.Valid(); err != nil {
			return err
		}
		switch s.ID { //nolint:exhaustive // the other settings don't concern a server
		case http2.SettingHeaderTableSize:
			h.encoder, h.table = nil, min(s.Val, tableSize)
		case http2.SettingInitialWindowSize:
			initial = int(s.Val)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range h.streams {
		if s.window += initial - h.initial; s.window > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	}
	h.initial = initial
	h.wakeNext()
	h.frame(http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
	if !h.greeted {
		h.greeted = true
		h.conn.served.Store(true) // from now on the connection may stay idle
		h.conn.waits(time.Now())
		return nil
	}
	return h.floods.control.charge(now, settingsCost, Control)
}

func (h *session) takeWindow(now time.Duration, f *http2.WindowUpdateFrame) error {
	isOpen := h.window >= openWindow
	switch s := h.find(f.StreamID); {
	case f.StreamID == 0:
		if h.window += int(f.Increment); h.window > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
	case h.isIdle(f.StreamID):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case s != nil:
		if s.window += int(f.Increment); s.window > math.MaxInt32 {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
		}
	}
	h.wakeNext()
	return h.floods.windowUpdate(now, f.StreamID == 0 && isOpen)
}

// farewell is the content of the PING that follows the first GOAWAY.
const farewell = "farewell"

func (h *session) takePing(now time.Duration, f *http2.PingFrame) error {
	switch {
	case !f.IsAck():
		h.frame(http2.FramePing, http2.FlagPingAck, 0, len(f.Data))
		h.out = append(h.out, f.Data[:]...)
	case h.leaving == warns && string(f.Data[:]) == farewell:
		h.goAway(h.newest, http2.ErrCodeNo)
		h.leaving = left
	}
	return h.floods.control.charge(now, 1, Control)
}

// refuse resets a stream because of what its client did.
func (h *session) refuse(now time.Duration, why http2.StreamError) error {
	if why.StreamID > h.newest {
		return http2.ConnectionError(why.Code)
	}
	h.sendReset(why.StreamID, why.Code)
	if s := h.find(why.StreamID); s != nil {
		h.remove(s, errReset)
	}
	return h.floods.reset(now)
}

// isIdle reports whether a stream has not begun, so that frames of it are an error. After the second GOAWAY, a
// higher number may be that of a request which came too late.
func (h *session) isIdle(id uint32) bool { return id > h.newest && h.leaving != left }

// find returns an open stream, or nil.
func (h *session) find(id uint32) *Stream {
	if i, ok := h.index(id); ok {
		return h.streams[i]
	}
	return nil
}

// remove removes a stream. Its readers and writers get the reason as their error.
func (h *session) remove(s *Stream, why error) {
	i, ok := h.index(s.id)
	if !ok {
		return
	}
	h.streams = slices.Delete(h.streams, i, i+1)
	if len(h.streams) == 0 && cap(h.streams) > fewStreams {
		h.streams = nil
	}
	s.err, s.body.closed = why, true
	h.opens(0, h.received.read(s.body.forget()))
	s.writes.Broadcast()
	s.reads.Broadcast()
	if why != nil && !(s.ended && len(h.out) == 0 && !h.writing) { // not if the client already has the whole answer
		s.presence.leave()
	}
}

// done records that a handler has returned.
func (h *session) done() {
	h.serving--
	if h.serving > 0 {
		return
	}
	h.room.Broadcast()
	h.conn.rested.Store(false)
	h.conn.waits(time.Now())
	if h.block.of != 0 {
		h.conn.begin(time.Now())
	}
	if h.leaving == left {
		h.conn.wakeNow()
	}
}

// tend does work that is due while the client sends nothing, such as the steps of retire. It returns false if
// the connection is over.
func (h *session) tend() bool {
	c := h.conn
	c.mu.Lock()
	isLate := c.isLate
	c.isLate = false
	c.calm()
	c.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.leaving == left && h.serving == 0, !h.greeted && (isLate || h.retires), isLate && h.block.of != 0:
		return false
	case isLate && h.serving == 0, h.leaving == warns && c.server.since(time.Now())-h.warned >= warnTime:
		h.goAway(h.newest, http2.ErrCodeNo)
		h.leaving = left
	case h.retires && h.leaving == stays:
		h.goAway(math.MaxInt32, http2.ErrCodeNo)
		h.frame(http2.FramePing, 0, 0, len(farewell))
		h.out = append(h.out, farewell...)
		h.floods.control.earn(1)
		h.leaving, h.warned = warns, c.server.since(time.Now())
	}
	h.flush()
	return h.err == nil && !(h.leaving == left && h.serving == 0)
}

// retire ends a session without losing a request (RFC 9113, 6.8). It warns the client, serves the
// requests that the client sent before it saw the warning, and then closes the connection. The
// server calls it repeatedly.
func (h *session) retire(now time.Time) {
	h.mu.Lock()
	due := h.leaving == stays || h.leaving == warns && h.conn.server.since(now)-h.warned >= warnTime
	h.retires = true
	h.mu.Unlock()
	if due {
		h.conn.wakeNow()
	}
}

func (h *session) index(id uint32) (int, bool) {
	return slices.BinarySearchFunc(h.streams, id, func(s *Stream, id uint32) int { return cmp.Compare(s.id, id) })
}
