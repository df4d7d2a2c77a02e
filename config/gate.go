package config

import (
	"net/netip"
	"time"

	"tempomat/config/form"
)

// Throttle sets how tempomat acts on debt.
type Throttle struct {
	Mode    string        // fair, observe, cap or cooperative
	Shadow  bool          // judge and log what Mode would do, and delay no request
	MaxHold time.Duration // longest delay of a request; one that would wait longer is refused
	Memory  time.Duration // longest time that any debt takes to be paid; what would take longer is forgiven
}

func defaultThrottle() Throttle {
	return Throttle{Mode: "fair", MaxHold: 30 * time.Second, Memory: 120 * time.Second}
}

// HasGate reports whether requests go through the gate, or are judged as if they did.
func (t *Throttle) HasGate() bool { return t.Mode == "fair" || t.Mode == "observe" }

// GateActs reports whether requests wait at the gate.
func (t *Throttle) GateActs() bool { return t.Mode == "fair" && !t.Shadow }

func throttleSettings(t *Throttle) []form.Setting {
	return []form.Setting{
		{Path: "throttle.mode", Value: form.Choice("fair", "observe", "cap", "cooperative").In(&t.Mode),
			Doc: "Way to act on debt. `fair`: no request waits while the backend has room; when it is full, clients that used less go first. `observe`: charge and log, but never delay or reject, not even by `limits` or `cap`. `cap`: requests wait until their classes' debt is paid. `cooperative`: requests run at once, and their responses are held."},
		{Path: "throttle.shadow", Value: form.Boolean().In(&t.Shadow),
			Doc: "Shadow mode: log what `throttle.mode` would do, and never delay or reject."},
		{Path: "throttle.maxHold", Value: form.Duration(0, time.Hour).In(&t.MaxHold),
			Doc: "Longest wait of a request. One that would wait longer is rejected with 429, in `fair` with 503."},
		{Path: "throttle.memory", Value: form.Duration(time.Second, day).In(&t.Memory),
			Doc: "Longest time to pay a debt; the rest is forgiven. Increase it for strict quotas in `cap`."},
	}
}

// Gate is the shape of the queue before the backend.
type Gate struct {
	Heavy    int    // requests of a size, and shorter, that may compute at a time; 0: follows the CPU use
	Usage    string // whose CPU use: machine, off, or a directory of cgroup v2
	Priority string // auto, on or off: whether the backend's processes step down as their requests compute
}

func defaultGate() Gate { return Gate{Usage: "machine", Priority: "auto"} }

// Standing is what evidence that a client is a person's browser counts.
type Standing struct {
	Trusted []netip.Prefix // networks whose clients need no other evidence
}

// Newcomers sets how new browsers are distinguished from programs.
type Newcomers struct {
	Redirect bool // redirect a waiting stranger to the same URL, with a cookie that lets it go first among strangers
}

// History is what is kept of the last hours: what the most expensive clients and URLs cost.
type History struct {
	Hours int // how many, 0 (nothing is kept) to 168
}

// mostHistory is the longest history, in hours: a week.
const mostHistory = 168

// gateSettings are the keys of the queue, and of what is known of those who wait there.
func gateSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "gate.heavy", Value: form.Integer(0, 10_000).In(&d.Gate.Heavy), Unit: "requests",
			Doc: "Most requests of one size class or smaller that compute at the same time. 0: one per CPU, and more while CPUs are idle."},
		{Path: "gate.usage", Value: wordOrPath("machine", "off").In(&d.Gate.Usage), Restart: true,
			Doc: "CPU use that `gate.heavy: 0` follows, if the backend is on this machine."},
		{Path: "gate.priority", Value: form.Choice("auto", "on", "off").In(&d.Gate.Priority),
			Doc: "Lower the [priority of backend processes](exact-costs.md) as their requests compute. `auto` does so if tempomat has CAP_SYS_NICE and sees which process serves a request. `on` warns if it can't."},
		{Path: "standing.trusted", Value: prefixes().In(&d.Standing.Trusted),
			Doc: "Networks whose clients' shares are multiplied by 4, such as offices and schools that share one address."},
		{Path: "newcomers.redirect", Value: form.Boolean().In(&d.Newcomers.Redirect),
			Doc: "Redirect an unknown browser that must wait to the same URL, with a cookie. When it returns, it goes first among unknown clients. Only in `throttle.mode: fair` without `throttle.shadow`."},
		{Path: "state", Value: form.OrOff(absolutePath("a file"), "off").In(&d.State), Restart: true,
			Doc: "File that keeps known clients (as keyed hashes, with the key) and pins (readable) over a restart. Only its owner and root may be able to write it."},
		{Path: "history.hours", Value: form.Integer(0, mostHistory).In(&d.History.Hours), Restart: true, Unit: "hours", Zero: "nothing is kept",
			Doc: "Hours of history for `tempomat-doctor report`: the most expensive clients and URLs ([personal data](security.md#personal-data)). The file is that of `state` with `.history` appended; `state: off` keeps it in memory. 0 deletes it."},
	}
}
