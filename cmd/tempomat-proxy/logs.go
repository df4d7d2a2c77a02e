package main

import (
	"io"
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
}

func newLogs(w io.Writer) *logs {
	out := zapcore.Lock(zapcore.AddSync(w))
	l := &logs{
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

func (l *logs) close() {
	_ = l.buffer.Stop() // nowhere is left to complain
}
