package config

import (
	"net/netip"
	"time"

	"tempomat/config/form"
)

// Throttle says how debt is acted on.
type Throttle struct {
	Mode    string        // fair, observe, cap or cooperative
	Shadow  bool          // judge and log what Mode would do, and delay nobody
	MaxHold time.Duration // longest delay of a request; who would wait longer is refused
	Memory  time.Duration // longest time that any debt takes to be paid; what would take longer is forgiven
}

func defaultThrottle() Throttle {
	return Throttle{Mode: "fair", MaxHold: 30 * time.Second, Memory: 120 * time.Second}
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
		{Path: "throttle.memory", Value: form.Duration(time.Second, day).In(&t.Memory),
			Doc: "The longest time that any debt takes to be paid: no key owes more than it earns in so long, the rest is forgiven. Longer for hard contracts in `cap`."},
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

// Newcomers says how browsers that have never been here are told from programs.
type Newcomers struct {
	Redirect bool // who waits is redirected to the same URL, with a cookie that lets it go first among strangers
}

// History is what is kept of the last hours: what the dearest clients and URLs cost.
type History struct {
	Hours int // how many, 0 (nothing is kept) to 168
}

// mostHistory is the longest history, in hours: a week.
const mostHistory = 168

// gateSettings are the keys of the queue, and of what is known of those who wait there.
func gateSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "gate.heavy", Value: form.Integer(0, 10_000).In(&d.Gate.Heavy), Unit: "requests",
			Doc: "Requests of a size, and shorter, that may compute at a time. 0: as many as CPUs, and more while they wait and CPUs are idle."},
		{Path: "gate.usage", Value: wordOrPath("machine", "off").In(&d.Gate.Usage), Restart: true,
			Doc: "Whose CPU use `gate.heavy: 0` follows, if the backend is on this machine."},
		{Path: "gate.priority", Value: form.Choice("auto", "on", "off").In(&d.Gate.Priority),
			Doc: "Whether the process that works on a request steps down in priority as it computes, so that the kernel gives the CPUs to what is short ([the kernel's help](exact-costs.md)). `auto`: where this process has the right (CAP_SYS_NICE) and sees which process serves a request. `on`: the same, with a warning where not."},
		{Path: "standing.trusted", Value: prefixes().In(&d.Standing.Trusted),
			Doc: "Networks whose clients need no evidence that they are people's browsers: their share is multiplied by 4, as it is for the backend's `Tempomat-Standing: yes`."},
		{Path: "newcomers.redirect", Value: form.Boolean().In(&d.Newcomers.Redirect),
			Doc: "A newcomer's navigation that has to wait is answered with a redirect to the same URL and a cookie; who is back with it goes first among strangers. It has an effect with `throttle.mode: fair` and without `throttle.shadow` only."},
		{Path: "state", Value: form.OrOff(absolutePath("a file"), "off").In(&d.State), Restart: true,
			Doc: "The file that keeps who is known over a restart: keyed hashes, and the keys themselves; and pins, readably. It is believed only if it is no link, and nobody but its owner and root can write it."},
		{Path: "history.hours", Value: form.Integer(0, mostHistory).In(&d.History.Hours), Restart: true, Unit: "hours", Zero: "nothing is kept",
			Doc: "How many of the last hours `tempomat-doctor report` can tell of: what the dearest clients, URL shapes and URLs cost ([what is kept of people](operations.md#privacy)). Kept in a file beside that of `state`, with `.history` behind its name; `state: off` keeps it in memory only. 0 keeps nothing and removes the file."},
	}
}
