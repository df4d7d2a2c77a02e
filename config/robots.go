package config

import (
	"net/netip"
	"slices"
	"strings"

	"tempomat/config/form"
)

// Robots sets how robots that identify themselves are charged.
type Robots struct {
	Enabled bool    // whether a robot is one client, whatever addresses it comes from
	Share   float64 // part of all CPUs that each may use steadily, above 0 to 1
	// Resolver is the DNS server to ask, as "host:port"; empty: the system's.
	Resolver string
	Refresh  string  // "on": the operators' lists of their robots' addresses are fetched; or "off"
	Known    []Robot // that can be verified, in addition to those that are known anyway
}

// Robot is one that can be verified. Missing keys come from the known robot of that name.
type Robot struct {
	Name      string    // as its User-Agents name it
	Domains   []string  // below which the names of its addresses lie
	Addresses []Proxies // that contain them
}

func defaultRobots() Robots { return Robots{Enabled: true, Share: 0.10, Refresh: "on"} }

const (
	// RobotClass is the class of robots' accounts. No class of one's own is called so.
	RobotClass = "robot"
	// SessionClass is that of clients that are known by a session.
	SessionClass = "session"
	// mostRobots bounds those that are given, and mostOfRobot what is given of one.
	mostRobots, mostOfRobot = 256, 64
	// everyRobot is what is wrong with all addresses as those of a robot.
	everyRobot = "would verify every client as this robot"
)

func robotsSettings(x *Robots) []form.Setting {
	return []form.Setting{
		{Path: "robots.enabled", Value: form.Boolean().In(&x.Enabled),
			Doc: "Give each robot that names itself [one account for all its addresses](robots.md), in the class `robot`."},
		{Path: "robots.share", Value: share().In(&x.Share),
			Doc: "Part of all CPUs that each verified robot may use in the long run. All robots that can't be verified have one such share together."},
		{Path: "robots.resolver", Value: resolverAddress().In(&x.Resolver),
			Doc: "DNS server that verifies robots by the names of their addresses. No request waits for it."},
		{Path: "robots.refresh", Value: form.Choice("on", "off").In(&x.Refresh),
			Doc: "Fetch the lists of addresses that [operators of robots](robots.md#how-it-is-verified) publish, every 6 hours, over HTTPS (`HTTPS_PROXY`)."},
		{Path: "robots.known", Value: robotList().In(&x.Known),
			Doc: "Robots to verify, in addition to the [built-in ones](robots.md#known-robots). An entry with a built-in name replaces the keys that it gives, and `addresses` the published list. A client that fails verification has its share halved."},
	}
}

func robotSettings(x *Robot) []form.Setting {
	return []form.Setting{
		{Path: "name", Value: robotName().In(&x.Name), Required: true,
			Doc: "Name of the robot in its User-Agent, and of its account. Case and digits don't matter."},
		{Path: "domains", Value: form.List[string]{Of: ownDomain(), Most: mostOfRobot}.In(&x.Domains), Default: "none",
			Doc: "Domains that verify the robot, such as `googlebot.com`: its address's DNS name must be below one, and resolve back."},
		{Path: "addresses", Value: form.List[Proxies]{Of: networks(everyRobot), Most: 1024}.In(&x.Addresses), Default: "none",
			Doc: "Networks that verify the robot. A file has one prefix per line, or is JSON as Google and Bing publish it."},
		{Path: "agents", Gone: "remove it: name is the robot's name in its User-Agent; give another name an entry of its own"},
		{Path: "share", Gone: "remove it: its share is robots.share; tempomat-doctor pin changes it for one"},
	}
}

// resolverAddress is that of a DNS server, or nothing.
func resolverAddress() form.Scalar[string] {
	s := form.Simple("an address and a port, such as `127.0.0.1:53`",
		"must be the address and the port of a DNS server, such as 127.0.0.1:53 or [::1]:53", func(text string) (string, bool) {
			at, err := netip.ParseAddrPort(text)
			return at.String(), err == nil && at.Port() != 0
		})
	return form.OrEmpty(s, "as `/etc/resolv.conf` has it")
}

// robotName is what a robot is called.
func robotName() form.Scalar[string] {
	const allowed = "at most 64 letters, digits, spaces or signs such as - or _"
	return form.Simple(allowed, "must be the name of a robot, such as googlebot: "+allowed, func(text string) (string, bool) {
		text = strings.ToLower(strings.TrimSpace(text))
		return text, text != "" && len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.# ") == ""
	})
}

// ownDomain is a domain of two labels or more, so it may be one operator's alone.
func ownDomain() form.Scalar[string] {
	const problem = "must be a domain that is the robot's alone, such as googlebot.com"
	return form.Simple("a domain of two labels or more", problem, func(text string) (string, bool) {
		text = strings.Trim(strings.ToLower(text), ".")
		return text, len(text) <= 253 && strings.Contains(text, ".") && !strings.Contains(text, "..") &&
			strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
	})
}

// robotList is the list of robots that can be verified.
func robotList() form.Members[Robot] {
	return form.Members[Robot]{
		Most: mostRobots, Least: 2, Example: "[{name: gptbot, addresses: [file:/etc/tempomat/gptbot.json]}]", Needs: "name, and domains or addresses",
		New: func() Robot { return Robot{} }, Keys: robotSettings,
		Check: func(x *Robot, others []Robot) string {
			switch {
			case len(x.Domains)+len(x.Addresses) == 0:
				return "must have domains or addresses"
			case slices.ContainsFunc(others, func(o Robot) bool { return o.Name == x.Name }):
				return "has the name of another one, " + x.Name
			}
			return ""
		},
	}
}
