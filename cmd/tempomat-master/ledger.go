package main

import (
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// ledger logs accounting, but no more than so many lines in a second: what is left
// out is told with the next one.
type ledger struct {
	log  *zap.Logger
	most atomic.Int64

	// The following are for the one goroutine that notes.
	second  int64
	lines   int64
	skipped int
}

func newLedger(log *zap.Logger) *ledger { return &ledger{log: log} }

func (l *ledger) limit(lines int) { l.most.Store(int64(lines)) }

// note logs one message, if there is room for it in this second.
func (l *ledger) note(now time.Time, a *smockron.Accounting) {
	most := l.most.Load()
	if most == 0 || a.Resync {
		return
	}
	if second := now.Unix(); second != l.second {
		l.second, l.lines = second, 0
	}
	if l.lines++; l.lines > most {
		l.skipped++
		return
	}
	fields := []zap.Field{
		zap.ByteString("domain", a.Domain), zap.String("status", status(a.Event)), zap.ByteString("identifier", a.Identifier),
		zap.Time("received", time.UnixMilli(a.Received)),
	}
	if a.Event == limiter.Delayed {
		fields = append(fields, zap.Duration("delayed", time.Duration(a.Until-a.Received)*time.Millisecond))
	}
	if a.HasCost {
		fields = append(fields, zap.Duration("cost", a.Cost))
	}
	if info := a.Words(); len(info) > 0 {
		fields = append(fields, zap.String("info", harmless(info)))
	}
	if l.skipped > 0 {
		fields = append(fields, zap.Int("skipped", l.skipped))
		l.skipped = 0
	}
	l.log.Info("accounting", fields...)
}

func status(e limiter.Event) string {
	switch e {
	case limiter.Delayed:
		return "DELAYED"
	case limiter.Rejected:
		return "REJECTED"
	case limiter.Accepted, limiter.Settled:
	}
	return "ACCEPTED"
}

// harmless is what a gatekeeper says for logs, such as a User-Agent: without what could command
// a terminal or turn a line around.
func harmless(info []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return '?'
	}, string(info))
}
