package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/cmd/internal/daemon"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// TestLedger: so many lines in a second and no more; what was left out is told with
// the next line.
func TestLedger(t *testing.T) {
	var out bytes.Buffer
	log := daemon.NewLog(zapcore.AddSync(&out), zap.InfoLevel)
	l := newLedger(log)
	start := time.Unix(1_000_000, 0)
	type line struct {
		Status, Domain, Identifier string
		Skipped                    int
		Delayed, Cost              *float64
		Info                       string
	}
	for _, step := range []struct {
		at       time.Duration
		most     int
		messages int
		lines    int
		skipped  int // told with the first line
	}{
		{0, 0, 3, 0, 0}, // none at first
		{0, 2, 5, 2, 0},
		{900 * time.Millisecond, 2, 4, 0, 0}, // the same second
		{time.Second, 2, 3, 2, 7},
		{5 * time.Second, 2, 1, 1, 1},
		{6 * time.Second, 0, 9, 0, 0}, // switched off: these do not count
		{7 * time.Second, 3, 3, 3, 0},
		{6 * time.Second, 3, 1, 1, 0}, // a clock that is set back
	} {
		out.Reset()
		l.limit(step.most)
		for range step.messages {
			l.note(start.Add(step.at), &smockron.Accounting{Domain: []byte("d"), Event: limiter.Accepted, Identifier: []byte("i")})
		}
		dec := json.NewDecoder(&out)
		var lines []line
		for dec.More() {
			var x line
			if err := dec.Decode(&x); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, x)
		}
		if len(lines) != step.lines || len(lines) > 0 && lines[0].Skipped != step.skipped {
			t.Errorf("%+v: got %+v", step, lines)
		}
		for i, x := range lines {
			if x.Status != "ACCEPTED" || x.Domain != "d" || x.Identifier != "i" || x.Delayed != nil || x.Cost != nil || i > 0 && x.Skipped > 0 {
				t.Errorf("%+v: got %+v", step, x)
			}
		}
	}
	out.Reset()
	l.note(start.Add(time.Hour), &smockron.Accounting{Domain: []byte("d"), Resync: true})
	if out.Len() > 0 {
		t.Errorf("a RESYNC is no accounting: %s", &out)
	}
	l.note(start.Add(time.Hour), &smockron.Accounting{Event: limiter.Delayed, Received: 1000, Until: 1500, Cost: 40 * time.Millisecond, HasCost: true})
	l.note(start.Add(time.Hour), &smockron.Accounting{Event: limiter.Rejected, Info: []byte(" Mozilla/5.0\x1b[31m \u202eevil \xff\n")})
	l.limit(9)
	l.note(start.Add(2*time.Hour), &smockron.Accounting{Event: limiter.Accepted, HasCost: true, Info: []byte("page=/a cost_ms=40 b")})
	l.note(start.Add(2*time.Hour), &smockron.Accounting{Event: limiter.Accepted, HasCost: true, Info: []byte("cost_ms=40")})
	dec := json.NewDecoder(&out)
	var delayed, rejected line
	if err := dec.Decode(&delayed); err != nil || delayed.Status != "DELAYED" || *delayed.Delayed != 0.5 || *delayed.Cost != 0.04 {
		t.Errorf("got %+v, %v", delayed, err)
	}
	if err := dec.Decode(&rejected); err != nil || rejected.Status != "REJECTED" || rejected.Info != "Mozilla/5.0\x1b[31m \u202eevil \ufffd" {
		t.Errorf("got %+v, %v", rejected, err)
	}
	var priced, plain line
	if err := dec.Decode(&priced); err != nil || priced.Info != "page=/a b" {
		t.Errorf("got %+v, %v", priced, err)
	}
	if err := dec.Decode(&plain); err != nil || plain.Info != "" {
		t.Errorf("got %+v, %v", plain, err)
	}
}
