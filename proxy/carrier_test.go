package proxy

import (
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// closes counts how often a connection is closed.
type closes struct {
	net.Conn
	n int
}

func (c *closes) Close() error {
	c.n++
	return nil
}

// TestWhoGivesStreamsUpIsCutOff: a person who leaves many pages is not, whoever does it
// without end is, soon or later.
func TestWhoGivesStreamsUpIsCutOff(t *testing.T) {
	for _, c := range []struct {
		each time.Duration
		n    int
		cut  bool
	}{
		{0, mostResets, false}, {0, mostResets + 1, true},
		{time.Second / resetsPerSecond, 100 * mostResets, false},
		{time.Second / resetsPerSecond / 2, 3 * mostResets, true},
	} {
		var conn closes
		k, now := carrier{conn: &conn}, time.Unix(1, 0)
		for range c.n {
			k.gaveUp(now)
			now = now.Add(c.each)
		}
		if (conn.n > 0) != c.cut {
			t.Errorf("%d streams, one each %v: closed %d times", c.n, c.each, conn.n)
		}
	}
}

// TestLogOfFailuresIsCapped: whoever fails on purpose does not fill the disk.
func TestLogOfFailuresIsCapped(t *testing.T) {
	core, lines := observer.New(zap.DebugLevel)
	log := Capped(zap.New(core))
	for range 5000 {
		log.Error("backend down")
	}
	log.Error("backend slow")
	if n := lines.Len(); n < mostLines+1 || n > 2*mostLines {
		t.Errorf("%d lines for 5001 failures", n)
	}
}
