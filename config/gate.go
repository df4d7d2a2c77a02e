package config

import (
	"net/netip"
	"time"

	"tempomat/config/form"
)

// Throttle sets what tempomat does about debt.
type Throttle struct {
	Mode    string        // fair, observe, cap or cooperative
	Shadow  bool          // only log what Mode would do
	MaxHold time.Duration // the longest delay of a request; a request that would wait longer is rejected
	Memory  time.Duration // the longest time that it takes to pay a debt; larger debts are reduced
}

func defaultThrottle() Throttle {
	return Throttle{Mode: "fair", MaxHold: 30 * time.Second, Memory: 120 * time.Second}
}

// HasGate reports whether requests go through the gate, even if it only reports what it would do.
func (t *Throttle) HasGate() bool { return t.Mode == "fair" || t.Mode == "observe" }

// GateActs reports whether requests wait at the gate.
func (t *Throttle) GateActs() bool { return t.Mode == "fair" && !t.Shadow }

func throttleSettings(t *Throttle) []form.Setting {
	return []form.Setting{
		{Path: "throttle.mode", Value: form.Choice("fair", "observe", "cap", "cooperative").In(&t.Mode)},
		{Path: "throttle.shadow", Value: form.Boolean().In(&t.Shadow)},
		{Path: "throttle.maxHold", Value: form.Duration(0, time.Hour).In(&t.MaxHold)},
		{Path: "throttle.memory", Value: form.Duration(time.Second, day).In(&t.Memory)},
	}
}

// Gate configures the queue in front of the backend.
type Gate struct {
	Heavy    int    // how many requests of one size or smaller may compute at a time; 0: follow the CPU use
	Usage    string // which CPU use to follow: machine, off, or a directory of cgroup v2
	Priority string // auto, on or off: whether processes of long requests get a lower priority
}

func defaultGate() Gate { return Gate{Usage: "machine", Priority: "auto"} }

// Standing sets which clients count as people without other evidence.
type Standing struct {
	Trusted []netip.Prefix // networks whose clients need no other evidence
}

// Newcomers sets how new browsers are distinguished from programs.
type Newcomers struct {
	Redirect bool // redirect a waiting stranger to the same URL, with a cookie that lets it go first among strangers
}

// History sets how long the costs of the most expensive clients and URLs are kept.
type History struct {
	Hours int // 0 (nothing is kept) to 168
}

// mostHistory is the longest history, in hours: a week.
const mostHistory = 168

// gateSettings returns the keys of the queue, and those for what tempomat remembers about clients.
func gateSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "gate.heavy", Value: form.Integer(0, 10_000).In(&d.Gate.Heavy)},
		{Path: "gate.usage", Value: wordOrPath("machine", "off").In(&d.Gate.Usage), Restart: true},
		{Path: "gate.priority", Value: form.Choice("auto", "on", "off").In(&d.Gate.Priority)},
		{Path: "standing.trusted", Value: prefixes().In(&d.Standing.Trusted)},
		{Path: "newcomers.redirect", Value: form.Boolean().In(&d.Newcomers.Redirect)},
		{Path: "state", Value: form.OrOff(absolutePath("a file"), "off").In(&d.State), Restart: true},
		{Path: "history.hours", Value: form.Integer(0, mostHistory).In(&d.History.Hours), Restart: true, Zero: "nothing is kept"},
	}
}
