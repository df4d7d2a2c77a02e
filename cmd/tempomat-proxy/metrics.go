package main

import (
	"time"

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
		Gate:  s.limiter.GateState().Shown(), Held: s.limiter.Held(), Keys: s.limiter.Keys(),
		Buffer: s.policies.spools.Stats(), Connections: s.connections.table.Stats(0),
		Sharing: s.sharing.Numbers(), Strict: s.policies.counts.strict(), Waiting: s.handler.WaitingByGroup(time.Now()),
	}
	n.Priorities, n.Pressure = s.priorities.numbers(), s.handler.Pressure()
	n.Beginnings, n.Certificates = s.beginnings.tell(), s.encryption.numbers()
	n.LostLines = s.logs.output.Lost()
	s.loaded.tell(n)
	return n
}
