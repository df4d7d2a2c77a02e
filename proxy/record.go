package proxy

import (
	"time"

	"tempomat/proxy/telemetry"
)

// recorded is what is told of an exchange that is over.
func (x *exchange) recorded(now time.Time, shard uint8) *telemetry.Record {
	x.record = telemetry.Record{
		Arrived: x.arrived, Request: x.request, Who: &x.Who, Verdict: x.Verdict, Group: x.group(), Outcome: x.outcome,
		Status: x.writer.status, Bytes: x.writer.bytes, Guess: x.Guess, Cost: x.Cost, Held: x.held, Orphan: x.IsOrphan(),
		Judged: x.policy.Standing != nil, Limit: x.counted.Limit, ID: x.id, Access: x.policy.Access,
		Told: x.told.cost, ToldWasted: x.told.wasted, Queued: x.queued(now), Shard: shard,
	}
	if !x.counted.Blocked {
		x.record.Limit = ""
	}
	if x.record.Remarkable() {
		x.identify()
		x.record.ID = x.id
	}
	return &x.record
}

// queued is for how long it waited if it was never let go.
func (x *exchange) queued(now time.Time) time.Duration {
	if x.waits.IsZero() || !x.forwarded.IsZero() {
		return 0
	}
	return now.Sub(x.waits)
}

// group is whom it counts among. Once it has arrived it may be called at any time.
func (x *exchange) group() telemetry.Group {
	switch {
	case x.Who.Exempt:
		return telemetry.Exempt
	case x.Who.Robot:
		return telemetry.Robot
	case x.Known() || x.Who.Evidence.Proves():
		return telemetry.Known
	case x.Passed():
		return telemetry.Newcomer
	}
	return telemetry.Stranger
}
