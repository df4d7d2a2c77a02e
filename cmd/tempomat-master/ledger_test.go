package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/cmd/internal/daemon"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// TestLedger: so many lines in a second and no more, which tell what a gatekeeper told.
func TestLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newLedger(daemon.NewLog(zapcore.AddSync(&out), zap.InfoLevel))
		for _, step := range []struct{ most, messages, lines int }{
			{0, 3, 0}, {2, 5, 2}, {0, 9, 0}, {3, 3, 3},
		} {
			time.Sleep(2 * time.Second)
			out.Reset()
			l.limit(step.most)
			for range step.messages {
				l.note(&smockron.Accounting{Domain: []byte("d"), Event: limiter.Accepted, Identifier: []byte("i")})
			}
			if lines := bytes.Count(out.Bytes(), []byte("\n")); lines != step.lines {
				t.Errorf("%+v: %d lines", step, lines)
			}
		}
		out.Reset()
		l.limit(9)
		for _, a := range []smockron.Accounting{
			{Domain: []byte("d"), Resync: true}, // is no accounting
			{Event: limiter.Delayed, Received: 1000, Until: 1500, Cost: 40 * time.Millisecond, HasCost: true},
			{Event: limiter.Rejected, Info: []byte(" Mozilla/5.0\x1b[31m \u202eevil \xff\n")},
			{Event: limiter.Accepted, HasCost: true, Info: []byte("page=/a cost_ms=40 b")},
		} {
			l.note(&a)
		}
		dec := json.NewDecoder(&out)
		for _, want := range []struct {
			Status, Info  string
			Delayed, Cost float64
		}{{"DELAYED", "", 0.5, 0.04}, {"REJECTED", "Mozilla/5.0\x1b[31m \u202eevil \ufffd", 0, 0}, {"ACCEPTED", "page=/a b", 0, 0}} {
			got := want
			got.Status, got.Info, got.Delayed, got.Cost = "", "", 0, 0
			if err := dec.Decode(&got); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		}
	})
}
