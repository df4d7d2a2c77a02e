package metrics

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/telemetrytest"
)

// statLines are the messages that one report logs.
func statLines(t *testing.T, l telemetry.Ledger, threshold time.Duration) []string {
	t.Helper()
	core, logged := observer.New(zap.InfoLevel)
	NewStatLog(l, threshold, time.Now, zap.New(core)).Report()
	var lines []string
	for _, e := range logged.All() {
		if e.LoggerName != "stats" || e.Level != zap.InfoLevel {
			t.Errorf("logger %q, level %v", e.LoggerName, e.Level)
		}
		lines = append(lines, e.Message)
	}
	return lines
}

func TestStatLogLines(t *testing.T) {
	want := []string{"UserAgent,'',3.000", "Slash32,'203.0.113.8',1.500", "Slash32,'203.0.113.9',0.734"}
	if diff := cmp.Diff(want, statLines(t, telemetrytest.NewLedger(), 100*time.Millisecond)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := statLines(t, telemetrytest.NewLedger(), 3*time.Second); got != nil {
		t.Errorf("at the threshold itself: %q", got)
	}
}

func TestStatLogIsBounded(t *testing.T) {
	var l telemetrytest.Ledger
	for i := range 123 {
		l.Rows = append(l.Rows, limiter.Row{Class: "slash24", ID: fmt.Sprintf("10.0.%d.0/24", i), Wait: float64(i + 1)})
	}
	got := statLines(t, l, time.Second/10)
	if len(got) != 101 || got[0] != "Slash24,'10.0.122.0/24',123.000" || got[99] != "Slash24,'10.0.23.0/24',24.000" ||
		got[100] != "and 23 more keys with an average wait over 100ms" {
		t.Errorf("%d lines, the last %q", len(got), got[len(got)-1])
	}
}

func TestStatLogQuotes(t *testing.T) {
	for title, want := range map[string]string{
		"Mozilla/# (X11)":            `'Mozilla/# (X11)'`,
		`it's "x" \ y`:               `'it\'s "x" \\ y'`,
		"a',9\nSlash32,'b":           `'a\',9\nSlash32,\'b'`,
		"\x1b[2J\x00\x7f":            `'\x1b[2J\x00\x7f'`,
		"\xff é \u009b \u202e":       `'\xff é \u009b \u202e'`,
		"":                           `''`,
		`\'`:                         `'\\\''`,
		"slash \u2028 next\u00a0end": `'slash \u2028 next\u00a0end'`,
	} {
		if got := quoteTitle(title); got != want {
			t.Errorf("%q: got %s, want %s", title, got, want)
		}
	}
}

func TestStatLogRunsEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zap.InfoLevel)
		s := NewStatLog(telemetrytest.NewLedger(), 2*time.Second, time.Now, zap.New(core))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		for minute := range 3 {
			if got := logged.Len(); got != minute {
				t.Errorf("after %d min: %d lines", minute, got)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		cancel()
		<-done
	})
}
