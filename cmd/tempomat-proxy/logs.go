package main

import (
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// logs is where the program writes what it has to say.
type logs struct {
	level  zap.AtomicLevel
	log    *zap.Logger
	access *zap.Logger // buffered, as it is written to while requests are served
	buffer *zapcore.BufferedWriteSyncer
}

func newLogs(w io.Writer) *logs {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	out := zapcore.Lock(zapcore.AddSync(w))
	l := &logs{
		level:  zap.NewAtomicLevel(),
		buffer: &zapcore.BufferedWriteSyncer{WS: out, FlushInterval: time.Second},
	}
	l.log = zap.New(zapcore.NewCore(encoder, plainJSON{out}, l.level))
	l.access = zap.New(zapcore.NewCore(encoder, plainJSON{l.buffer}, zap.InfoLevel)).Named("access")
	return l
}

// setLevel takes a level's name, which the configuration has checked.
func (l *logs) setLevel(name string) {
	if level, err := zapcore.ParseLevel(name); err == nil {
		l.level.SetLevel(level)
	}
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
