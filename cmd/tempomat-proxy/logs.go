package main

import (
	"io"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
)

// logs is where the program writes what it has to say.
type logs struct {
	level  zap.AtomicLevel
	output *daemon.Output
	log    *zap.Logger
	access *zap.Logger
}

func newLogs(w io.Writer) *logs {
	l := &logs{level: zap.NewAtomicLevel(), output: daemon.NewOutput(w)}
	l.log = daemon.NewLog(l.output, l.level)
	l.access = daemon.NewLog(daemon.Later{Output: l.output}, zap.InfoLevel).Named("access")
	return l
}

// lines is where requests are logged as lines of text; nil: they are logged as all else is.
func (l *logs) lines(format string) io.Writer {
	if format != "combined" {
		return nil
	}
	return daemon.Later{Output: l.output}
}
