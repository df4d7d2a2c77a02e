package config

import (
	"time"

	"tempomat/config/form"
)

// Throttle says how debt is acted on.
type Throttle struct {
	Mode    string        // fair, observe, cap or cooperative
	Shadow  bool          // judge and log what Mode would do, and delay nobody
	MaxHold time.Duration // longest delay of a request; who would wait longer is refused
	MaxHeld int           // most requests held at once
	Memory  time.Duration // longest time that any debt takes to be paid; what would take longer is forgiven
}

func defaultThrottle() Throttle {
	return Throttle{Mode: "fair", MaxHold: 30 * time.Second, MaxHeld: 1024, Memory: 120 * time.Second}
}

// HasGate tells whether requests go through the gate, or are judged as if they did.
func (t *Throttle) HasGate() bool { return t.Mode == "fair" || t.Mode == "observe" }

// GateActs tells whether requests wait at the gate.
func (t *Throttle) GateActs() bool { return t.Mode == "fair" && !t.Shadow }

// DelaysNobody tells whether all is only judged.
func (t *Throttle) DelaysNobody() bool { return t.Mode == "observe" || t.Shadow }

func throttleSettings(t *Throttle) []form.Setting {
	return []form.Setting{
		{Path: "throttle.mode", Value: form.Choice("fair", "observe", "cap", "cooperative").In(&t.Mode),
			Doc: "`fair`: nobody waits while the backend has room; when it has none, debt makes a request dearer, and who is cheap goes first. `observe`: charge, rank and log, delay and refuse nobody, whatever `limits`, caps and sites say. `cap`: requests wait before the backend until their classes' debt is paid. `cooperative`: requests run at once, their responses are held."},
		{Path: "throttle.shadow", Value: form.Boolean().In(&t.Shadow),
			Doc: "Judge and log what `throttle.mode` would do, and delay nobody."},
		{Path: "throttle.maxHold", Value: form.Duration(0, time.Hour).In(&t.MaxHold),
			Doc: "The longest delay of a request; who would wait longer is refused, with 429, in `fair` with 503."},
		{Path: "throttle.maxHeld", Value: form.Integer(0, 1_000_000).In(&t.MaxHeld), Unit: "requests",
			Doc: "Most requests held at once. One client, or one address, may have all of them until others want some: a full queue refuses requests of the client with the most of them, long ones first, and the parts of pages last."},
		{Path: "throttle.maxHeldPerClient", Value: form.Integer(0, 1_000_000).In(new(int)), Unit: "requests",
			Gone: "a client may have as many requests waiting as throttle.maxHeld lets wait, until others want that room"},
		{Path: "throttle.memory", Value: form.Duration(time.Second, day).In(&t.Memory),
			Doc: "The longest time that any debt takes to be paid: no key owes more than it earns in so long, the rest is forgiven. Longer for hard contracts in `cap`."},
	}
}
