package proxy

import (
	"time"

	"tempomat/proxy/telemetry"
)

// EachWaiting calls f for each request that waits at the gate, with its group and since
// when. f must not wait.
func (h *Handler) EachWaiting(f func(g telemetry.Group, since time.Time)) {
	h.waiting.Each(func(x *exchange) { f(x.waitingGroup(), x.arrived) })
}

// waitingGroup is whom a request that waits counts among: of its Verdict nothing is known.
func (x *exchange) waitingGroup() telemetry.Group {
	switch {
	case x.Who.Robot:
		return telemetry.Robot
	case !x.Stranger() || x.Who.Evidence.Proves():
		return telemetry.Known
	case x.Passed():
		return telemetry.Newcomer
	}
	return telemetry.Stranger
}
