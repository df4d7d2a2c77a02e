// Package config is the configuration as an administrator writes it: plain
// data, its defaults, and every rule about what is allowed. Nothing here opens
// anything but the files that it is told to read; cmd turns the result into parts.
//
// The keys of one section stand in one file: the struct that they fill, its default,
// and a table of settings, each with what it means. From that table a file is read and
// checked, and printed, compared and documented. A new key is a field, a default and a
// row there, a line in deploy/tempomat.yaml, and "make docs-config". A new section is
// also a field of Config, a line of Default and one of chapters.
package config

import (
	"net/netip"
	"time"
)

// Config is one whole configuration. The comment of each field is its manual.
type Config struct {
	Listen         []Listener   // addresses to serve; at least one
	TLS            TLS          // where certificates come from
	Backend        Backend      // where requests go
	CPUCount       float64      // CPUs that the backend has; 0: as many as this machine (its cgroup) has
	TrustedProxies []Proxies    // peers whose forwarded headers count; empty: nobody's do
	Underscores    bool         // header names with an underscore reach the backend
	Upgrades       []string     // the protocols that a connection may change to
	Via            string       // what the proxy calls itself in Via; empty: it adds none
	AddressHeader  string       // where they tell the client's address: X-Forwarded-For, Forwarded, X-Real-IP, CF-Connecting-IP, True-Client-IP or none
	Throttle       Throttle     // how debt is acted on
	Gate           Gate         // the queue before the backend
	Standing       Standing     // what evidence that a client is a person counts
	Newcomers      Newcomers    // how browsers that have never been here are told from programs
	Robots         Robots       // robots that say who they are
	Sites          Sites        // what is told apart behind the backend
	State          string       // the file that keeps who is known over a restart; empty: none
	History        History      // what is kept of the last week
	Classes        []Class      // in the order of the table of built-in ones, then as written
	Databases      Databases    // of addresses
	Exempt         []Exemption  // requests that are never charged or delayed
	Limits         []Limit      // how many requests clients may make, beside what these cost
	Headers        string       // what tells clients of limits: none, ratelimit (X-RateLimit-…) or draft (the IETF's)
	Cost           Cost         // how a request's cost is found
	Table          Table        // the memory for keys
	Timeouts       Timeouts     // how long a client may hold things open
	Buffer         Buffer       // where bodies wait for the backend and for slow clients
	Coordination   Coordination // whom the sidecar shares its accounts with
	Admin          Admin        // where the doctor and the dashboard connect
	Graphite       Graphite     // where statistics go
	Metrics        string       // "host:port" where Prometheus asks; empty: nowhere
	Log            Log          // what is logged
	ErrorPages     ErrorPages   // what people see where the proxy itself answers
	RobotsTxt      string       // the file that /robots.txt is answered with; empty: the backend answers
	Warnings       []string     // what was given and has no effect any more, each in a line
}

// Default is the configuration of an empty file. Loopback peers are trusted,
// because only what runs on this machine, such as a local TLS terminator, can
// connect from there.
func Default() *Config {
	return &Config{
		Listen:  []Listener{{Address: ":8888"}},
		TLS:     TLS{ACME: defaultACME()},
		Backend: defaultBackend(),
		TrustedProxies: []Proxies{
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
			{Prefixes: []netip.Prefix{netip.MustParsePrefix("::1/128")}},
		},
		AddressHeader: "X-Forwarded-For",
		Upgrades:      []string{"websocket"},
		Throttle:      defaultThrottle(),
		Gate:          Gate{Strangers: 0.5, Usage: "machine", Priority: "auto"},
		Standing:      Standing{Enabled: true, Attested: 4},
		Newcomers:     Newcomers{Redirect: true},
		Robots:        defaultRobots(),
		Sites:         Sites{Others: 1},
		State:         "/var/lib/tempomat/state",
		History:       History{Hours: mostHistory},
		Classes:       defaultClasses(),
		Headers:       "none",
		Cost:          Cost{Source: "auto", Database: "auto"},
		Table:         Table{Size: 65536},
		Timeouts:      defaultTimeouts(),
		Buffer:        defaultBuffer(),
		Coordination:  defaultCoordination(),
		Admin:         Admin{Listen: "unix:/run/tempomat/admin.sock"},
		Graphite:      Graphite{Prefix: "sites.{hostname}", Interval: 60 * time.Second},
		Log:           Log{Level: "info", Access: "sampled", Format: "json", DelayThreshold: 100 * time.Millisecond},
		ErrorPages:    ErrorPages{Languages: []string{"en", "de"}},
	}
}
