//go:build accept

package main

import (
	"testing"
	"time"
)

// TestAcceptRestarts restarts the program twenty times under 64 connections, in both
// ways. Of 100,000 requests none fails.
func TestAcceptRestarts(t *testing.T) {
	sayLoad(t)
	const clients, restarts, requests = 64, 10, 50_000
	f := newFigures("restarts by", "restarts", "requests", "failed", "asked again", "took")
	for _, way := range []struct {
		name    string
		restart func(t *testing.T, clients, restarts int, requests int64) *askers
	}{{"handed-over sockets", restartsByHandedOver}, {"successors", restartsBySuccessors}} {
		began := time.Now()
		a := way.restart(t, clients, restarts, requests)
		f.row("%s | %d | %d | %d | %d | %.1f s", way.name, restarts, a.asked.Load(), a.failed.Load(), a.again.Load(), time.Since(began).Seconds())
		if a.failed.Load() > 0 || a.asked.Load() < requests {
			t.Errorf("%s: %d of %d requests failed", way.name, a.failed.Load(), a.asked.Load())
		}
	}
	t.Log(f)
}
