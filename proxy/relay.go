package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/backend"
	"tempomat/proxy/http1"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// keepsUp is the longest that a client takes to accept a piece of an answer and counts as
// fast.
const keepsUp = time.Millisecond

// pass passes an answer on: header, body and trailers.
func (u *Upstream) pass(now time.Time, x *exchange, res *backend.Answer) {
	events := isEventStream(res.Fields)
	if events {
		x.stream(now)
	}
	a := &x.backend.relay
	*a = relay{
		x: x, answer: res, rest: res.Length, log: u.log,
		live: events || strings.EqualFold(res.Fields.Get("X-Accel-Buffering"), "no"),
	}
	if x.gone() || !x.takesStream() {
		a.abandon()
	}
	a.writeHeader(res)
	a.writeBody()
	if res.Length < 0 && x.client.writer.tails != nil {
		_ = x.client.writer.FlushError() // only the end is held; if the client disconnected, the server notices that
	}
	x.client.writer.SetTrailer(trailers(res.Trailer()))
}

func isEventStream(h http1.Fields) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// relay is an answer's body on its way from the backend to the client. The
// backend is done with the request when the body has been read to its end; if
// the client cannot take it as fast as that, a spool does.
type relay struct {
	x      *exchange
	answer *backend.Answer
	rest   int64 // of it, that the client was not given; negative: that is unknown
	live   bool  // it must not wait
	log    *zap.Logger
}

// writeHeader has the client get the backend's header, as far as it is for it. An answer that
// requires an upgrade says to what (RFC 9110, 15.5.22), but in HTTP/2, which has none.
func (a *relay) writeHeader(res *backend.Answer) {
	h := a.x.client.writer.Fields()
	*h = endToEnd(*h, res.Fields)
	if required := res.Fields.Get("Upgrade"); res.Status == http.StatusUpgradeRequired && required != "" {
		h.Add("Upgrade", required)
	}
	announced := slices.DeleteFunc(res.Fields.Announced(), func(key string) bool { return !mayTrail(key) || h.Has(key) }) // sent with the head
	if len(announced) > 0 {
		h.Add("Trailer", strings.Join(announced, ", "))
	}
	a.x.client.writer.Relays(res.Reason)
	a.x.client.writer.WriteHeader(res.Status)
}

// writeBody passes the body on. What the server still buffers, headers included, is sent as
// soon as the backend pauses.
func (a *relay) writeBody() {
	pieces := &a.x.handler.pieces
	piece := pieces.get(true)
	defer func() { pieces.put(piece) }()
	if a.send(nil, a.answer.Waits()) != nil {
		a.abandon()
	}
	switch n, waits, err := a.read(piece); {
	case err != nil:
		a.sendLast(piece[:n], err)
	case !a.spools():
		a.direct(piece, n, waits)
	default:
		a.keepPace(&piece, n, waits)
	}
}

// read reads a piece, and tells whether the next one is yet to come.
func (a *relay) read(piece []byte) (n int, waits bool, err error) {
	n, err = a.answer.Read(piece)
	return n, err == nil && a.answer.Waits(), err
}

// spools reports whether the answer may wait for its client.
func (a *relay) spools() bool {
	b := &a.x.policy.Buffer
	return b.Store != nil && b.Response > 0 && !a.live
}

// open makes the spool.
func (a *relay) open() *spool.Spool {
	b, w := &a.x.policy.Buffer, &a.x.backend.work
	kept := b.Store.Open(a.x.life.Who.Client, b.ResponseMemory, b.Response)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer = kept; a.x.life.IsOrphan() {
		kept.Close()
	}
	return kept
}

// fill takes the answer from the backend as fast as it comes, and returns why it ends. If there
// is no room for it, the backend waits for the client. An answer without a client is also read
// to its end.
func (a *relay) fill(kept *spool.Spool) (err error) {
	defer survive(a.log, &err)
	pieces := &a.x.handler.pieces
	piece := pieces.get(true)
	defer pieces.put(piece)
	for err == nil {
		var n int
		n, err = a.answer.Read(piece)
		if n > 0 && a.keep(kept, piece[:n]) != nil {
			a.x.orphan(time.Now())
			if err == nil {
				err = a.x.drain(a.answer, piece)
			}
		}
	}
	return err
}

// keep puts a piece in the spool. The meter stands still while it waits for the
// client.
func (a *relay) keep(kept *spool.Spool, p []byte) error {
	n := kept.TryWrite(p)
	if n == len(p) {
		return nil
	}
	a.x.life.Pause(time.Now())
	defer func() { a.x.life.Resume(time.Now()) }()
	_, err := kept.Write(p[n:])
	return err
}

// empty passes on what is in the spool, in a piece that fits the client. Err is
// of the piece that came before it.
func (a *relay) empty(t *takeover, err error, piece *[]byte) {
	kept := <-t.kept
	defer func() {
		kept.Close()
		<-t.over
	}()
	if err != nil {
		a.x.abandon()
	}
	pieces := &a.x.handler.pieces
	for {
		n, err := kept.Read(*piece)
		if n > 0 {
			from := time.Now()
			a.write((*piece)[:n], kept.Buffered() == 0)
			*piece = pieces.fit(*piece, time.Since(from) < keepsUp)
		}
		if err != nil {
			a.requireEnd(err)
			return
		}
	}
}

// direct passes on without a spool, at the client's pace.
func (a *relay) direct(piece []byte, n int, waits bool) {
	for {
		if a.send(piece[:n], waits) != nil || a.x.gone() {
			a.abandon()
		}
		var err error
		if n, waits, err = a.read(piece); err != nil {
			a.sendLast(piece[:n], err)
			return
		}
	}
}

// sendLast passes on the last piece; the backend does not wait for it.
func (a *relay) sendLast(p []byte, err error) {
	a.backendDone(err)
	a.x.client.writer.spooled = true
	a.write(p, false)
	a.requireEnd(err)
}

// write writes a piece to a client that has left if it does not take it.
func (a *relay) write(p []byte, flushes bool) {
	if a.send(p, flushes) != nil {
		a.x.abandon()
	}
}

// send writes a piece to the client, and has the server send what it keeps of an answer that is
// known to go on.
func (a *relay) send(p []byte, flushes bool) (err error) {
	if len(p) > 0 {
		_, err = a.x.client.writer.Write(p)
		a.rest -= int64(len(p))
	}
	if err == nil && flushes && a.rest != 0 {
		err = a.x.client.writer.FlushError()
	}
	return err
}

// abandon ends the exchange because the client disconnected. The rest of the backend's answer
// is read and dropped, to see when the backend has finished.
func (a *relay) abandon() {
	a.x.orphan(time.Now())
	pieces := &a.x.handler.pieces
	piece := pieces.get(true)
	defer pieces.put(piece)
	a.backendDone(a.x.drain(a.answer, piece))
	a.x.abandon()
}

// backendDone ends the backend's part; it has finished if err is io.EOF.
func (a *relay) backendDone(err error) {
	a.x.handler.settle(time.Now(), a.x, errors.Is(err, io.EOF))
}

// requireEnd breaks the answer off if it has not come to its end. What there is of it is sent before:
// a client that gets nothing may think that an idle connection was closed, and repeat its request.
func (a *relay) requireEnd(err error) {
	switch {
	case errors.Is(err, io.EOF):
		return
	case a.x.gone():
		a.x.abandon()
	}
	a.log.Error("the backend broke its answer off", zap.Error(err),
		zap.String("method", a.x.request.Method), zap.String("path", telemetry.Clip(a.x.request.URL.Path)))
	_ = a.x.client.writer.FlushError() // the client disconnected: it gets no end either
	abort()
}

// spoolAfter is how long the backend waits for its client, in one answer's course
// altogether, before a spool takes the answer.
const spoolAfter = 10 * time.Millisecond

// takeover is a spool in the place of a client that is slow.
type takeover struct {
	kept chan *spool.Spool
	over chan struct{} // the backend has finished
}

// keepPace passes the answer on piece by piece while the client keeps up. Most do, and a spool
// with its file would cost as much as all the rest. If a piece waits for the client longer than
// spoolAfter, a spool takes the next pieces.
func (a *relay) keepPace(piece *[]byte, n int, waits bool) {
	t := takeover{make(chan *spool.Spool, 1), make(chan struct{})}
	left := spoolAfter
	timer := time.AfterFunc(left, func() { a.takeOver(&t) })
	from := time.Now()
	a.x.client.writer.spooled = true // the pauses are counted here
	for {
		a.x.life.Pause(from)
		err := a.send((*piece)[:n], waits)
		if !timer.Stop() {
			a.empty(&t, err, piece)
			return
		}
		now := time.Now()
		a.x.life.Resume(now)
		if err != nil || a.x.gone() {
			a.abandon()
		}
		left -= now.Sub(from)
		if n, waits, err = a.read(*piece); err != nil {
			a.sendLast((*piece)[:n], err)
			return
		}
		from = time.Now()
		timer.Reset(max(left, 0))
	}
}

// takeOver has the spool take the rest of the answer. The piece on its way to
// the client is no pause of the backend's any more.
func (a *relay) takeOver(t *takeover) {
	defer close(t.over)
	a.x.life.Resume(time.Now())
	kept := a.open()
	t.kept <- kept
	err := a.fill(kept)
	a.backendDone(err)
	kept.CloseWrite(err)
}

const (
	smallPiece = 4 << 10
	largePiece = 32 << 10
)

// pieces lends the memory that bodies are copied through. A large piece is for a client that
// keeps up; an answer that waits for a slow client holds a small one, because there may be
// thousands of these.
type pieces struct{ small, large sync.Pool }

func (p *pieces) init() {
	p.small.New = func() any { return new([smallPiece]byte) }
	p.large.New = func() any { return new([largePiece]byte) }
}

func (p *pieces) get(large bool) []byte {
	if large {
		return p.large.Get().(*[largePiece]byte)[:]
	}
	return p.small.Get().(*[smallPiece]byte)[:]
}

func (p *pieces) put(b []byte) {
	if len(b) == largePiece {
		p.large.Put((*[largePiece]byte)(b))
	} else {
		p.small.Put((*[smallPiece]byte)(b))
	}
}

// fit takes a piece back and lends one of the other size, if that is due.
func (p *pieces) fit(b []byte, large bool) []byte {
	if (len(b) == largePiece) == large {
		return b
	}
	p.put(b)
	return p.get(large)
}
