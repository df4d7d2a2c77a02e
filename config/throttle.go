package config

import (
	"slices"
	"time"

	"tempomat/config/form"
)

// Throttle says how debt is acted on.
type Throttle struct {
	Mode    string        // fair, observe, cap or cooperative
	Shadow  string        // what is only judged: false, true (Mode), or another mode: fair, cap, cooperative
	MaxHold time.Duration // longest delay of a request; who would wait longer is refused
	MaxHeld int           // most requests held at once
	Memory  time.Duration // longest time that any debt takes to be paid; what would take longer is forgiven
}

func defaultThrottle() Throttle {
	return Throttle{Mode: "fair", Shadow: "false", MaxHold: 30 * time.Second, MaxHeld: 1024, Memory: 120 * time.Second}
}

// HasGate tells whether requests go through the gate, or are judged as if they did.
func (t *Throttle) HasGate() bool { return t.Mode == "fair" || t.Mode == "observe" }

// GateActs tells whether requests wait at the gate.
func (t *Throttle) GateActs() bool { return t.Mode == "fair" && !t.JudgesOnly() }

// DelaysNobody tells whether all is only judged.
func (t *Throttle) DelaysNobody() bool { return t.Mode == "observe" || t.JudgesOnly() }

// JudgesOnly tells whether all is only judged because of throttle.shadow.
func (t *Throttle) JudgesOnly() bool { return t.Shadow == "true" }

// shadows are what can be in shadow: the word of a mode, or true or false as such.
func shadows() form.Scalar[string] {
	words := form.Choice("false", "true", "fair", "cap", "cooperative")
	words.Schema = form.AnyOf(form.Boolean().Schema, words.Schema)
	return words
}

// InShadow is the mode that what is in shadow would act by if it acted; empty: nothing is.
func (c *Config) InShadow() string {
	t := &c.Throttle
	switch {
	case t.Shadow != "true" && t.Shadow != "false":
		return t.Shadow
	case t.Mode == "observe":
		return "fair"
	case t.Shadow == "true" || slices.ContainsFunc(c.Classes, func(x Class) bool { return x.Shadow }):
		return t.Mode
	}
	return ""
}

func throttleSettings(t *Throttle) []form.Setting {
	return []form.Setting{
		{Path: "throttle.mode", Value: form.Choice("fair", "observe", "cap", "cooperative").In(&t.Mode),
			Doc: "`fair`: nobody waits while the backend has room; when it has none, debt makes a request dearer, and who is cheap goes first. `observe`: charge, rank and log, delay nobody. `cap`: requests wait before the backend until their classes' debt is paid. `cooperative`: requests run at once, their responses are held."},
		{Path: "throttle.shadow", Value: shadows().In(&t.Shadow),
			Doc: "`true`: judge and log what would be done, and delay nobody. A mode: act as `throttle.mode` says, and reckon beside that what this mode would have done. [`tempomat-doctor shadow`](shadow.md) tells it, in either case, and in `observe`."},
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
