package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/backend"
	"tempomat/proxy/http1"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// keepsUp is the longest time that a fast client takes to accept a piece of an answer.
const keepsUp = time.Millisecond

// pass sends an answer to the client: header, body and trailers.
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
	if x.gone() {
		a.abandon()
	}
	a.writeHeader(res)
	a.writeBody()
	if res.Length < 0 && x.client.writer.tail != nil {
		_ = x.client.writer.FlushError() // only the end is held back; if it fails, the server notices that the client has disconnected
	}
	x.client.writer.SetTrailer(trailers(res.Trailer()))
}

func isEventStream(h http1.Fields) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// relay is an answer's body on its way from the backend to the client. When the body has been read to
// its end, the backend has finished with the request. If the backend sends the body faster than the
// client takes it, a spool keeps what the client hasn't taken yet.
type relay struct {
	x      *exchange
	answer *backend.Answer
	piece  []byte // piece that is read from the backend and sent to the client
	rest   int64  // number of bytes still to be sent to the client; negative: unknown
	live   bool   // whether the answer must not wait in a spool
	log    *zap.Logger
}

// writeHeader sends the client the fields of the backend's header that clients get. An answer that requires
// an upgrade also names the protocol (RFC 9110, 15.5.22).
func (a *relay) writeHeader(res *backend.Answer) {
	h := a.x.client.writer.Fields()
	*h = endToEnd(*h, res.Fields)
	if required := res.Fields.Get("Upgrade"); res.Status == http.StatusUpgradeRequired && required != "" {
		h.Add("Upgrade", required)
	}
	a.x.client.writer.Relays(res.Reason)
	a.x.client.writer.WriteHeader(res.Status)
}

// writeBody passes the body on. As soon as the backend pauses, it flushes everything that the server still
// buffers, including the header.
func (a *relay) writeBody() {
	pieces := &a.x.handler.pieces
	a.piece = pieces.get(a.firstSize())
	defer func() {
		pieces.put(a.piece)
		a.piece = nil
	}()
	a.x.client.writer.spooled = a.spools() // so that no flush of the header pauses the meter; keepPace itself counts the pauses
	if a.send(nil, a.answer.Waits()) != nil {
		a.abandon()
	}
	switch n, waits, err := a.read(); {
	case err != nil:
		a.sendLast(n, err)
	case !a.spools():
		a.direct(n, waits)
	default:
		a.keepPace(n, waits)
	}
}

// firstSize returns the size of the first piece. It is smaller over HTTP/2, where many answers may wait.
func (a *relay) firstSize() int {
	switch {
	case a.rest >= 0 && a.rest <= smallPiece:
		return smallPiece
	case a.x.request.ProtoMajor == 2 && a.spools():
		return middlePiece
	}
	return largePiece
}

// read reads a piece. waits reports that the backend hasn't sent the next piece yet.
func (a *relay) read() (n int, waits bool, err error) {
	n, err = a.answer.Read(a.piece)
	return n, err == nil && a.answer.Waits(), err
}

// spools reports whether the answer may wait for its client.
func (a *relay) spools() bool {
	b := &a.x.policy.Buffer
	return b.Store != nil && b.Response > 0 && !a.live
}

// open opens the spool of the answer.
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

// fill reads the answer into the spool as fast as the backend sends it. It returns io.EOF at the end of the
// answer, otherwise the error that ended it. If the spool has no room, the backend waits for the client. If
// the client disconnects, fill drains the rest.
func (a *relay) fill(kept *spool.Spool) (err error) {
	defer survive(a.log, &err)
	pieces := &a.x.handler.pieces
	piece := pieces.get(largePiece)
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

// keep puts a piece in the spool. It stops the meter while the spool waits for the client.
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

// empty sends the content of the spool to the client, in larger pieces if the client is fast. err is the
// result of sending the previous piece.
func (a *relay) empty(t *takeover, err error) {
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
		n, err := kept.Read(a.piece)
		if n > 0 {
			from := time.Now()
			a.write(a.piece[:n], kept.Buffered() == 0)
			a.piece = pieces.fit(a.piece, time.Since(from) < keepsUp)
		}
		if err != nil {
			a.requireEnd(err)
			return
		}
	}
}

// direct passes the answer on without a spool, as fast as the client accepts it.
func (a *relay) direct(n int, waits bool) {
	for {
		if a.send(a.piece[:n], waits) != nil || a.x.gone() {
			a.abandon()
		}
		var err error
		if n, waits, err = a.read(); err != nil {
			a.sendLast(n, err)
			return
		}
	}
}

// sendLast passes on the last piece, after it has ended the backend's part.
func (a *relay) sendLast(n int, err error) {
	a.backendDone(err)
	a.x.client.writer.spooled = true
	a.write(a.piece[:n], false)
	a.requireEnd(err)
}

// write writes a piece to the client, and ends the exchange if the client doesn't take it.
func (a *relay) write(p []byte, flushes bool) {
	if a.send(p, flushes) != nil {
		a.x.abandon()
	}
}

// send writes a piece to the client. If flushes is set, it also sends what the server still buffers, unless
// the answer is complete.
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

// abandon ends the exchange because the client disconnected. It reads and drops the rest of the backend's
// answer, to notice when the backend has finished.
func (a *relay) abandon() {
	a.x.orphan(time.Now())
	pieces := &a.x.handler.pieces
	piece := pieces.get(largePiece)
	defer pieces.put(piece)
	a.backendDone(a.x.drain(a.answer, piece))
	a.x.abandon()
}

// backendDone ends the backend's part. If err is io.EOF, the backend has finished its answer.
func (a *relay) backendDone(err error) {
	a.x.handler.settle(time.Now(), a.x, errors.Is(err, io.EOF))
}

// requireEnd aborts the answer, unless it is complete. It first sends the part that has arrived: a client
// that gets nothing may think that an idle connection was closed, and repeat its request.
func (a *relay) requireEnd(err error) {
	switch {
	case errors.Is(err, io.EOF):
		return
	case a.x.gone():
		a.x.abandon()
	}
	a.log.Error("the backend cut off its answer", zap.Error(err),
		zap.String("method", a.x.request.Method), zap.String("path", telemetry.Clip(a.x.request.URL.Path)))
	_ = a.x.client.writer.FlushError() // if that fails, the client has disconnected
	abort()
}

// spoolAfter is how long the backend may wait for the client during one answer, in total. After that a spool
// takes the rest of the answer.
const spoolAfter = 10 * time.Millisecond

// takeover moves an answer to a spool, because the client is slow.
type takeover struct {
	kept chan *spool.Spool
	over chan struct{} // closed when the backend has finished
}

// keepPace passes the answer on piece by piece, without a spool, while the client keeps up. Most clients do,
// and a spool with its file would double the cost of an answer. If pieces wait for the client for longer than
// spoolAfter in total, a spool takes the next ones.
func (a *relay) keepPace(n int, waits bool) {
	t := takeover{make(chan *spool.Spool, 1), make(chan struct{})}
	left := spoolAfter
	timer := time.AfterFunc(left, func() { a.takeOver(&t) })
	from := time.Now()
	for {
		a.x.life.Pause(from)
		err := a.send(a.piece[:n], waits)
		if !timer.Stop() {
			a.empty(&t, err)
			return
		}
		now := time.Now()
		a.x.life.Resume(now)
		if err != nil || a.x.gone() {
			a.abandon()
		}
		took := now.Sub(from)
		if left -= took; took < keepsUp && n == len(a.piece) {
			a.piece = a.x.handler.pieces.fit(a.piece, true)
		}
		if n, waits, err = a.read(); err != nil {
			a.sendLast(n, err)
			return
		}
		from = time.Now()
		timer.Reset(max(left, 0))
	}
}

// takeOver reads the rest of the answer into a spool, while the client is still taking the last piece. From
// now on the backend no longer waits for the client.
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
	smallPiece  = 4 << 10
	middlePiece = 8 << 10
	largePiece  = 32 << 10
)

// pieces lends the memory that bodies are copied through. A client that keeps up gets a large piece; an answer
// that waits for a slow client holds a small one, because there may be thousands of such answers.
type pieces struct{ small, middle, large sync.Pool }

func (p *pieces) init() {
	p.small.New = func() any { return new([smallPiece]byte) }
	p.middle.New = func() any { return new([middlePiece]byte) }
	p.large.New = func() any { return new([largePiece]byte) }
}

func (p *pieces) get(size int) []byte {
	switch size {
	case smallPiece:
		return p.small.Get().(*[smallPiece]byte)[:]
	case middlePiece:
		return p.middle.Get().(*[middlePiece]byte)[:]
	}
	return p.large.Get().(*[largePiece]byte)[:]
}

func (p *pieces) put(b []byte) {
	switch len(b) {
	case smallPiece:
		p.small.Put((*[smallPiece]byte)(b))
	case middlePiece:
		p.middle.Put((*[middlePiece]byte)(b))
	default:
		p.large.Put((*[largePiece]byte)(b))
	}
}

// fit returns a piece of the wanted size: b itself, or another piece in exchange for b.
func (p *pieces) fit(b []byte, large bool) []byte {
	size := smallPiece
	if large {
		size = largePiece
	}
	if len(b) == size {
		return b
	}
	p.put(b)
	return p.get(size)
}
