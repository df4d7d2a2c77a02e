package config

import (
	"net/netip"

	"tempomat/config/form"
)

// Gate configures the queue in front of the backend.
type Gate struct {
	Heavy    int    // the most requests of one size or smaller that may compute at a time; 0: follow the CPU use
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

// gateSettings returns the keys of the queue, and those for data about clients.
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
