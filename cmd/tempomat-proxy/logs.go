package main

import (
	"bytes"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/cmd/internal/daemon"
)

// logs is where the program writes what it has to say.
type logs struct {
	level  zap.AtomicLevel
	log    *zap.Logger
	access *zap.Logger // buffered, as it is written to while requests are served
	buffer *zapcore.BufferedWriteSyncer
	losses *losses
}

func newLogs(w io.Writer) *logs {
	lost := &losses{to: w}
	out := zapcore.Lock(zapcore.AddSync(lost))
	l := &logs{
		losses: lost,
		level:  zap.NewAtomicLevel(),
		buffer: &zapcore.BufferedWriteSyncer{WS: out, FlushInterval: time.Second},
	}
	l.log = daemon.NewLog(out, l.level)
	l.access = daemon.NewLog(l.buffer, zap.InfoLevel).Named("access")
	return l
}

// lines is where requests are logged as lines of text; nil: they are logged as all else is.
func (l *logs) lines(format string) io.Writer {
	if format != "combined" {
		return nil
	}
	return l.buffer
}

// lostLately is for how long after the last loss the log counts as one that loses lines.
const lostLately = time.Minute

// losses notices what could not be written. Only the last failure is kept: the disk of the log has
// no room for more.
type losses struct {
	to io.Writer

	mu    sync.Mutex // guards the following
	lines uint64
	last  time.Time
	why   error
}

// Write implements io.Writer.
func (l *losses) Write(p []byte) (int, error) {
	n, err := l.to.Write(p)
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines += uint64(bytes.Count(p[n:], []byte("\n"))) //nolint:gosec // never negative
		l.last, l.why = time.Now(), err
	}
	return n, err
}

// lately is how many lines were lost since the start, and why; no error: none was lately.
func (l *losses) lately(now time.Time) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.last) > lostLately {
		return l.lines, nil
	}
	return l.lines, l.why
}

func (l *logs) close() {
	_ = l.buffer.Stop() // nowhere is left to complain
}
