package config

import (
	"net/netip"
	"slices"
	"strings"

	"tempomat/config/form"
)

// Robots sets how robots that identify themselves are charged.
type Robots struct {
	Enabled bool    // all addresses of a robot together are one client
	Share   float64 // fraction of all CPUs that each robot may use permanently, above 0 to 1
	// Resolver is the DNS server to use, as "host:port"; empty: the system's.
	Resolver string
	Refresh  string  // "on" or "off": whether to fetch the lists of addresses that operators publish
	Known    []Robot // robots in addition to the built-in ones
}

// Robot is a robot that can be verified. Missing keys are taken from the built-in robot of the same name, if
// there is one.
type Robot struct {
	Name      string    // the robot's name in its User-Agents
	Domains   []string  // domains that contain the DNS names of its addresses
	Addresses []Proxies // networks of its addresses
}

func defaultRobots() Robots { return Robots{Enabled: true, Share: 0.10, Refresh: "on"} }

const (
	// RobotClass is the class of robots' accounts. A custom class can't have this name.
	RobotClass = "robot"
	// SessionClass is the class of clients that are recognised by a session.
	SessionClass = "session"
	// mostRobots limits the number of robots in a file, and mostOfRobot the number of domains of one robot.
	mostRobots, mostOfRobot = 256, 64
	// everyRobot is the error for a prefix that would verify all addresses as one robot.
	everyRobot = "would verify every client as this robot"
)

func robotsSettings(x *Robots) []form.Setting {
	return []form.Setting{
		{Path: "robots.enabled", Value: form.Boolean().In(&x.Enabled)},
		{Path: "robots.share", Value: share().In(&x.Share)},
		{Path: "robots.resolver", Value: resolverAddress().In(&x.Resolver)},
		{Path: "robots.refresh", Value: form.Choice("on", "off").In(&x.Refresh)},
		{Path: "robots.known", Value: robotList().In(&x.Known), Nested: true},
	}
}

func robotSettings(x *Robot) []form.Setting {
	return []form.Setting{
		{Path: "name", Value: robotName().In(&x.Name), Required: true},
		{Path: "domains", Value: form.List[string]{Of: ownDomain(), Most: mostOfRobot}.In(&x.Domains)},
		{Path: "addresses", Value: form.List[Proxies]{Of: networks(everyRobot), Most: 1024}.In(&x.Addresses)},
		{Path: "agents", Gone: "remove it: name is the robot's name in its User-Agent; give another name an entry of its own"},
		{Path: "share", Gone: "remove it: its share is robots.share; to change the share of one robot, use tempomat-doctor pin"},
	}
}

// resolverAddress reads the address of a DNS server, or an empty string.
func resolverAddress() form.Scalar[string] {
	return form.OrEmpty(form.Simple("must be the address and the port of a DNS server, such as 127.0.0.1:53 or [::1]:53", func(text string) (string, bool) {
		at, err := netip.ParseAddrPort(text)
		return at.String(), err == nil && at.Port() != 0
	}))
}

// robotName reads the name of a robot.
func robotName() form.Scalar[string] {
	const allowed = "at most 64 letters, digits, spaces or the characters - _ . #"
	return form.Simple("must be the name of a robot, such as googlebot: "+allowed, func(text string) (string, bool) {
		text = strings.ToLower(strings.TrimSpace(text))
		return text, text != "" && len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.# ") == ""
	})
}

// ownDomain reads a domain of at least two labels. A top-level domain can't belong to one operator.
func ownDomain() form.Scalar[string] {
	const problem = "must be a domain that only the robot's operator uses, such as googlebot.com"
	return form.Simple(problem, func(text string) (string, bool) {
		text = strings.Trim(strings.ToLower(text), ".")
		return text, len(text) <= 253 && strings.Contains(text, ".") && !strings.Contains(text, "..") &&
			strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
	})
}

// robotList reads the list of robots that can be verified.
func robotList() form.Members[Robot] {
	return form.Members[Robot]{
		Most: mostRobots, Example: "[{name: gptbot, addresses: [file:/etc/tempomat/gptbot.json]}]", Needs: "name, and domains or addresses",
		New: func() Robot { return Robot{} }, Keys: robotSettings,
		Check: func(x *Robot, others []Robot) string {
			switch {
			case len(x.Domains)+len(x.Addresses) == 0:
				return "must have domains or addresses"
			case slices.ContainsFunc(others, func(o Robot) bool { return o.Name == x.Name }):
				return "has the same name as another robot, " + x.Name
			}
			return ""
		},
	}
}
