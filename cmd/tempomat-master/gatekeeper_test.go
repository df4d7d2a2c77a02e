//go:build cgo

package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// gatekeeper is one of the test's own, with what it was told.
type gatekeeper struct {
	*smockron.Gatekeeper
	told *told
}

// told is a limiter.Sink that remembers until when each has to wait.
type told struct {
	mu    sync.Mutex // guards the following
	until map[limiter.Key]time.Time
}

// Debit implements limiter.Sink.
func (*told) Debit(time.Time, limiter.Charge) {}

// SetReplicas implements limiter.Sink.
func (*told) SetReplicas(time.Time, int) {}

// Learn implements limiter.Sink.
func (*told) Learn(time.Time, []byte) {}

// Raise implements limiter.Sink.
func (s *told) Raise(_ time.Time, k limiter.Key, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until.After(s.until[k]) {
		s.until[k] = until
	}
}

// startGatekeeper connects one to masters until the test ends, and waits for one of them. It shares the class
// api by requests and slash32 by CPU time.
func startGatekeeper(t *testing.T, masters ...smockron.Addresses) *gatekeeper {
	t.Helper()
	g := &gatekeeper{told: &told{until: make(map[limiter.Key]time.Time)}}
	var routes []smockron.Route
	for _, a := range masters {
		routes = append(routes, smockron.Route{Domain: "api", Class: "api", Master: a, Requests: true},
			smockron.Route{Domain: "www.slash32", Class: "slash32", Master: a})
	}
	g.Gatekeeper = smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Routes: routes})
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx, g.told) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, "the gatekeeper knows what the master knew", func() bool {
		return g.synced() > 0
	})
	return g
}

// synced is how many masters have told it what they know.
func (g *gatekeeper) synced() (n int) {
	for _, s := range g.State() {
		if s.Present && s.Synced {
			n++
		}
	}
	return n
}

// pass tells the master of requests that were let through.
func (g *gatekeeper) pass(id string, requests int) {
	for range requests {
		now := time.Now()
		g.Offer(limiter.Charge{Key: limiter.Key{Class: "api", ID: id}, Event: limiter.Accepted, At: now, Received: now, Until: now})
	}
}

// waits returns until when somebody has to wait, zero if not at all.
func (g *gatekeeper) waits(class, id string) time.Time {
	g.told.mu.Lock()
	defer g.told.mu.Unlock()
	return g.told.until[limiter.Key{Class: class, ID: id}]
}
