//go:build cgo

package main

import (
	"context"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// gatekeeper is a gatekeeper of the test, with a limiter that receives the masters' orders.
type gatekeeper struct {
	*smockron.Gatekeeper
	*limiter.Limiter
}

// startGatekeeper connects a gatekeeper to masters until the test ends, and waits for one of them. The gatekeeper
// shares the class api by requests and slash32 by CPU time.
func startGatekeeper(t *testing.T, masters ...smockron.Addresses) *gatekeeper {
	t.Helper()
	g := &gatekeeper{Limiter: limiter.New(time.Now(), limiter.Policy{Memory: time.Hour, Classes: []limiter.ClassInfo{
		{Name: "api", Budget: limiter.Budget{CPUs: 1}}, {Name: "slash32", Budget: limiter.Budget{CPUs: 1}},
	}}, 16, nil)}
	var routes []smockron.Route
	for _, a := range masters {
		routes = append(routes, smockron.Route{Domain: "api", Class: "api", Master: a, Requests: true},
			smockron.Route{Domain: "www.slash32", Class: "slash32", Master: a})
	}
	g.Gatekeeper = smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Routes: routes})
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx, g.Limiter) }()
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

// synced returns the number of masters that have sent their state to the gatekeeper.
func (g *gatekeeper) synced() (n int) {
	for _, s := range g.State() {
		if s.Present && s.Synced {
			n++
		}
	}
	return n
}

// pass reports admitted requests to the master.
func (g *gatekeeper) pass(id string, requests int) {
	for range requests {
		now := time.Now()
		g.Offer(limiter.Charge{Key: limiter.Key{Class: "api", ID: id}, Event: limiter.Accepted, At: now, Received: now, Until: now})
	}
}

// waits reports whether an identifier is in debt.
func (g *gatekeeper) waits(class, id string) bool {
	row, known := g.Find(time.Now(), limiter.Key{Class: class, ID: id})
	return known && row.Level < 0
}
