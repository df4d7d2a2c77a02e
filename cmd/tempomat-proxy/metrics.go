package main

import (
	"time"

	"tempomat/limiter/gossip"
	"tempomat/limiter/redis"
	"tempomat/limiter/smockron"
	"tempomat/proxy/telemetry/metrics"
)

// series is what Graphite gets.
func (s *sidecar) series() map[string]float64 { return metrics.Series(s.numbers()) }

// numbers is what there is to count at this moment. It does not take s.mu: a reload, which
// has it, waits for who asks.
func (s *sidecar) numbers() *metrics.State {
	n := &metrics.State{
		Release: version,
		Totals:  s.inside.counts.Totals(), Redirects: s.policies.newcomer.Counts(),
		Costs: s.handler.Policy().Meter.Sums(),
		Gate:  s.limiter.GateState(), Held: s.limiter.Held(), Keys: s.limiter.Keys(),
		Buffer: s.policies.spools.Stats(), Connections: s.connections.table.Stats(0),
		Sharing: s.sharing.numbers(), Strict: s.policies.counts.strict(), Waiting: s.handler.WaitingByGroup(time.Now()),
	}
	n.Priorities, n.Pressure = s.priorities.numbers(), s.handler.Pressure()
	n.Beginnings, n.Certificates = s.beginnings.tell(), s.encryption.numbers()
	n.Shadowed = s.history.shadowed()
	s.loaded.tell(n)
	return n
}

// numbers is how sharing goes.
func (s *sharing) numbers() metrics.Sharing {
	n := metrics.Sharing{Kind: s.kind}
	s.mu.Lock()
	trouble := s.trouble
	s.mu.Unlock()
	switch {
	case trouble != nil:
		n.Up = map[string]bool{s.kind: false}
	case s.ties != nil:
		n.Up = s.ties()
	}
	if s.state == nil {
		return n
	}
	switch state := s.state().(type) {
	case gossip.State:
		c := state.Counts
		n.Peers, n.Sent, n.Received = max(0, state.Sidecars-1), c.Sent, c.Received
		n.Dropped, n.Failed, n.Unsound = c.Dropped+c.Expired, c.Unsendable, c.Malformed
		for _, p := range state.Peers {
			if p.Ignored {
				n.Ignored++
			}
		}
	case redis.State:
		n.Sent, n.Received, n.Dropped, n.Failed = state.RoundTrips, state.Raised, state.Dropped, state.Failures
	case []smockron.LinkState:
		for _, l := range state {
			n.Sent, n.Received = n.Sent+l.Sent, n.Received+l.Orders
			n.Dropped, n.Unsound = n.Dropped+l.Dropped+l.Away+l.Old, n.Unsound+l.Unsound
		}
	}
	return n
}
