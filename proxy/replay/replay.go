// Package replay reads an access log and tells what limits and the gate would have
// done with its requests.
//
// They are run on virtual time through what serves requests: classify, the lifecycle
// and the limiter, before a simulated backend that shares its CPUs evenly among those
// at work there. Each request costs what the log says. [Run] streams: a line is parsed
// (log.go), sorted within a window (window.go), simulated (engine.go) and counted
// (tally.go), and nothing grows with the length of the log.
//
// What a log does not contain is not replayed: cookies and other headers, redirects of
// newcomers, and clients that would have given up, or returned, because of their wait. Requests
// come at the times in the log, whatever happened to earlier ones.
package replay

import (
	"context"
	"errors"
	"io"

	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// Setup is what Run replays a log with.
type Setup struct {
	Policy    limiter.Policy  // the limits and the gate
	TableSize int             // keys that the limiter remembers
	Rules     lifecycle.Rules // how requests are classified and measured; Newcomers is nil
	CPUs      float64         // of the backend, above 0
	Workers   int             // of the backend, above 0
	Measures  bool            // the proxy sees the backend's CPU use
}

// Run replays a log and reports. The error is a *FormatError if no line can be read,
// or what r or the context said.
func Run(ctx context.Context, r io.Reader, s Setup) (*Report, error) {
	p := newPlayer(untilDone{ctx, r}, s)
	if err := p.play(ctx); err != nil {
		return nil, err
	}
	return p.report(), nil
}

// untilDone reads until a context ends. A log may be without a single request, and as large
// as a few megabytes of gzip can make it.
type untilDone struct {
	ctx context.Context //nolint:containedctx // it is there only for as long as Run
	r   io.Reader
}

// Read implements io.Reader.
func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(p)
}

// player is a replay under way.
type player struct {
	setup  Setup
	lines  *lines
	window *window
	engine *engine // nil until the first request's time is known
	tally  *tally
}

func newPlayer(r io.Reader, s Setup) *player {
	l := newLines(r)
	return &player{setup: s, lines: l, window: newWindow(s.CPUs, &l.counts)}
}

// cancelEach is after how many lines Run looks whether it is to go on.
const cancelEach = 1 << 12

func (p *player) play(ctx context.Context) error {
	for n := 0; ; n++ {
		if n%cancelEach == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, err := p.lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if p.window.date(e) {
			p.release(false) // before it is counted into the crowd
			p.window.add(e)
		}
	}
	p.release(true)
	p.engine.drain()
	return nil
}

// release simulates the requests that are due, or all.
func (p *player) release(all bool) {
	for e := p.window.next(all); e != nil; e = p.window.next(all) {
		if p.engine == nil {
			p.tally = newTally(p.window.epoch, p.setup)
			p.engine = newEngine(p.window.epoch, p.setup, p.tally)
		}
		j := newJob(e)
		p.tally.asked(j)
		p.engine.arrive(j)
	}
}
