package metrics

import (
	"tempomat/classify/newcomer"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/host"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// State is what there is at a moment. Totals are since the start.
type State struct {
	Release      string
	Mode         string // fair, observe, cap, cooperative
	Shadow       bool   // nobody is delayed
	CPUs         float64
	Totals       *telemetry.Totals
	Costs        cpuaccount.Sums
	Priorities   Priorities
	Pressure     float64 // negative: nobody knows
	Waiting      telemetry.Waiting
	Redirects    newcomer.Counts
	Gate         limiter.GateState
	Held, Keys   int
	Buffer       spool.Stats
	Connections  connlimit.Stats
	Reloads      uint64
	Rejected     uint64
	ReloadOK     bool   // the last reload was not rejected, or there was none
	LostLines    uint64 // of the log, which could not be written
	Sharing      Sharing
	Beginnings   Beginnings
	Certificates []Certificate
	Strict       *Strict // nil: no request limit is strict
}

// Priorities is how the backend's processes step down.
type Priorities struct {
	On bool // they do
	host.PriorityCounts
}

// Strict is how counting for strict request limits goes.
type Strict struct{ Checks, Failures uint64 }

// Sharing is how sharing accounts goes.
type Sharing struct {
	Kind string // as configured: none, smockron, …
	limiter.SharingStatus
}
