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

// Config is one whole configuration. The comment of each field is its manual.
type Config struct {
	Traffic
	Statistics
	Answers
	TLS          TLS          // where certificates come from
	Throttle     Throttle     // how debt is acted on
	Gate         Gate         // the queue before the backend
	Standing     Standing     // what evidence that a client is a person counts
	Newcomers    Newcomers    // how browsers that have never been here are told from programs
	Robots       Robots       // robots that say who they are
	Sites        Sites        // what is told apart behind the backend
	State        string       // the file that keeps who is known over a restart; empty: none
	History      History      // what is kept of the last week
	Classes      []Class      // in the order of the table of built-in ones, then as written
	Databases    Databases    // of addresses
	Exempt       []Exemption  // requests that are never charged or delayed
	Limits       []Limit      // how many requests clients may make, beside what these cost
	Headers      string       // what tells clients of limits: none, ratelimit (X-RateLimit-…) or draft (the IETF's)
	Cost         Cost         // how a request's cost is found
	Table        Table        // the memory for keys
	Timeouts     Timeouts     // how long a client may hold things open
	Buffer       Buffer       // where bodies wait for the backend and for slow clients
	Coordination Coordination // whom the sidecar shares its accounts with
	Admin        Admin        // where the doctor and the dashboard connect
	Warnings     []string     // what was given and has no effect any more, each in a line
}

// Default is the configuration of an empty file.
func Default() *Config {
	return &Config{
		Traffic:      defaultTraffic(),
		Statistics:   defaultStatistics(),
		Answers:      defaultAnswers(),
		TLS:          TLS{ACME: defaultACME()},
		Throttle:     defaultThrottle(),
		Gate:         defaultGate(),
		Standing:     defaultStanding(),
		Newcomers:    Newcomers{Redirect: true},
		Robots:       defaultRobots(),
		Sites:        Sites{Others: 1},
		State:        "/var/lib/tempomat/state",
		History:      History{Hours: mostHistory},
		Classes:      defaultClasses(),
		Headers:      "none",
		Cost:         defaultCost(),
		Table:        Table{Size: 65536},
		Timeouts:     defaultTimeouts(),
		Buffer:       defaultBuffer(),
		Coordination: defaultCoordination(),
		Admin:        defaultAdmin(),
	}
}
