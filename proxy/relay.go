package proxy

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/classify/standing"
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
	events := isEventStream(res.Header)
	if events {
		x.stream(now)
	}
	a := &x.relay
	*a = relay{
		x: x, body: res, log: u.log,
		flushes: events || res.Length < 0,
		live:    events || strings.EqualFold(res.Header.Get("X-Accel-Buffering"), "no"),
	}
	if a.page = x.Page(now, res.Header); a.page != nil {
		a.body = io.TeeReader(res, a.page)
	}
	if x.gone() {
		a.drain()
		abort()
	}
	announced := trailers(res.Trailer)
	a.writeHeader(res, announced)
	a.writeBody()
	if res.Length < 0 {
		// Or the server calculates the length of a short body, and there are no trailers
		// after one that has a length; and the header is the backend's, whose memory
		// another request is about to get.
		_ = x.writer.FlushError() // the client has gone: the server sees for itself
	}
	came := trailers(res.Trailer)
	if len(came) == 0 {
		return
	}
	h := x.writer.Header()
	for name, values := range came {
		if _, told := announced[name]; !told {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
}

func isEventStream(h http.Header) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
}

// relay is an answer's body on its way from the backend to the client. The
// backend is done with the request when the body has been read to its end; if
// the client cannot take it as fast as that, a spool does.
type relay struct {
	x       *exchange
	body    io.Reader
	flushes bool // the client is to see each piece at once
	live    bool // it must not wait
	log     *zap.Logger
	page    *standing.Page // is read for the parts that it names; nil: it is not
}

// writeHeader writes the header. Where the body's length is unknown its first
// piece may be long in coming: see flushSoon.
func (a *relay) writeHeader(res *backend.Answer, announced http.Header) {
	a.copyHeader(res)
	h, p := a.x.writer.Header(), a.x.policy
	if p.Via != "" {
		h["Via"] = p.via(h["Via"], 1)
	}
	if len(announced) > 0 {
		h.Add("Trailer", strings.Join(slices.Sorted(maps.Keys(announced)), ", "))
	}
	a.x.writer.WriteHeader(res.Status)
}

// speller is a server's side that can answer as the backend has spelled it.
type speller interface {
	Spell(reason string, order []http1.Name, h http.Header) (before http.Header)
}

// copyHeader has the client get the backend's header, as far as it is for it.
func (a *relay) copyHeader(res *backend.Answer) {
	w := a.x.writer.ResponseWriter
	if s, ok := w.(speller); ok {
		strip(res.Header, res.Order)
		res.Header = s.Spell(res.Reason, res.Order, res.Header)
		return
	}
	h := w.Header()
	endToEnd(h, res.Header)
	if _, told := h["Content-Type"]; !told {
		h["Content-Type"] = nil // net/http would look at the body and guess
	}
}

// writeBody passes the body on.
func (a *relay) writeBody() {
	pieces := &a.x.handler.pieces
	piece := pieces.get(true)
	defer func() { pieces.put(piece) }()
	sent := a.flushSoon()
	n, err := a.body.Read(piece)
	sent()
	switch {
	case err != nil:
		a.finish(err)
		a.x.writer.spooled = true
		a.write(piece[:n])
		a.check(err)
		return
	case !a.spools():
		a.direct(piece, n)
		return
	}
	a.keepPace(&piece, n)
}

// flushSoon sends the header while the body's first piece does not come. What it
// returns, the caller calls when it has.
func (a *relay) flushSoon() (sent func()) {
	if !a.flushes {
		return func() {}
	}
	var mu sync.Mutex
	came := false
	timer := time.AfterFunc(0, func() {
		mu.Lock()
		defer mu.Unlock()
		if !came {
			_ = a.x.writer.FlushError() // the client has gone: the server sees for itself
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		came = true
	}
}

// spools tells whether the answer may wait for its client.
func (a *relay) spools() bool {
	b := &a.x.policy.Buffer
	return b.Store != nil && b.Response > 0 && !a.live
}

// open makes the spool.
func (a *relay) open() *spool.Spool {
	b, w := &a.x.policy.Buffer, &a.x.work
	kept := b.Store.Open(a.x.Who.Client, b.ResponseMemory, b.Response)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer = kept; a.x.IsOrphan() {
		kept.Close()
	}
	return kept
}

// fill takes the answer from the backend as fast as it gives it. Where there is
// no room for it, the backend waits for the client. An answer that nobody gets
// is read to its end all the same.
func (a *relay) fill(kept *spool.Spool) {
	pieces := &a.x.handler.pieces
	piece := pieces.get(true)
	defer pieces.put(piece)
	for {
		n, err := a.body.Read(piece)
		if n > 0 && a.keep(kept, piece[:n]) != nil {
			a.x.leave(time.Now())
			if err == nil {
				err = a.x.drain(a.body, piece)
			}
		}
		if err != nil {
			a.finish(err)
			kept.CloseWrite(err)
			return
		}
	}
}

// keep puts a piece in the spool. The meter stands still while it waits for the
// client.
func (a *relay) keep(kept *spool.Spool, p []byte) error {
	n := kept.TryWrite(p)
	if n == len(p) {
		return nil
	}
	a.x.Pause(time.Now())
	defer func() { a.x.Resume(time.Now()) }()
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
		a.left()
	}
	pieces := &a.x.handler.pieces
	for {
		n, err := kept.Read(*piece)
		if n > 0 {
			from := time.Now()
			a.write((*piece)[:n])
			*piece = pieces.fit(*piece, time.Since(from) < keepsUp)
		}
		if err != nil {
			a.check(err)
			return
		}
	}
}

// direct passes on without a spool, at the client's pace.
func (a *relay) direct(piece []byte, n int) {
	for {
		if a.send(piece[:n]) != nil || a.x.gone() {
			a.giveUp()
		}
		var err error
		if n, err = a.body.Read(piece); err != nil {
			a.finish(err)
			a.write(piece[:n])
			a.check(err)
			return
		}
	}
}

// write writes a piece to the client, for which the backend does not wait.
func (a *relay) write(p []byte) {
	if a.send(p) != nil {
		a.left()
	}
}

// send writes a piece to the client.
func (a *relay) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := a.x.writer.Write(p)
	if err == nil && a.flushes {
		err = a.x.writer.FlushError()
	}
	return err
}

// left ends the exchange as the client has left.
func (a *relay) left() {
	a.x.leave(time.Now())
	a.x.outcome = telemetry.ClientGone
	abort()
}

// giveUp ends the exchange as the client has left; the backend comes to its end
// first.
func (a *relay) giveUp() {
	a.x.leave(time.Now())
	a.drain()
	a.left()
}

// drain reads the rest for nobody.
func (a *relay) drain() {
	pieces := &a.x.handler.pieces
	piece := pieces.get(true)
	defer pieces.put(piece)
	a.finish(a.x.drain(a.body, piece))
}

// finish ends the backend's part; it is done if err is io.EOF.
func (a *relay) finish(err error) {
	a.x.handler.settle(time.Now(), a.x, errors.Is(err, io.EOF))
	if page := a.page; page != nil {
		a.page = nil
		go page.End() // nobody is to wait for that
	}
}

// check breaks the answer off if it has not come to its end.
func (a *relay) check(err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	if a.x.gone() {
		a.x.outcome = telemetry.ClientGone
	} else {
		a.log.Error("the backend broke its answer off", zap.Error(err),
			zap.String("method", a.x.request.Method), zap.String("path", telemetry.Clip(a.x.request.URL.Path)))
	}
	abort()
}
