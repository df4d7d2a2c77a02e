package proxy

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestBacklog(t *testing.T) {
	const guess = 20 * time.Millisecond
	for _, c := range []struct {
		name         string
		late, prompt int
		every        time.Duration
		took         time.Duration
		want         int
	}{
		{"all are late", 100, 0, time.Millisecond, time.Second, 1},
		{"again after a while", 3000, 0, 200 * time.Millisecond, time.Second, 2},
		{"few", 9, 0, time.Millisecond, time.Second, 0},
		{"few in any window", 100, 0, 2 * time.Second, time.Second, 0},
		{"others are prompt", 100, 200, time.Millisecond, time.Second, 0},
		{"slower, but not late", 100, 0, time.Millisecond, 340 * time.Millisecond, 0},
	} {
		core, logged := observer.New(zap.WarnLevel)
		b := &backlog{log: zap.New(core)}
		now := time.Unix(1_000_000, 0)
		for range c.prompt {
			b.note(now, guess, guess, 16)
		}
		for range c.late {
			now = now.Add(c.every)
			b.note(now, guess, c.took, 16)
		}
		if got := logged.Len(); got != c.want {
			t.Errorf("%s: %d warnings, want %d", c.name, got, c.want)
		}
	}
}
