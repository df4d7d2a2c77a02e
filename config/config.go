// Package config is the configuration as an administrator writes it: plain
// data, its defaults, and every rule about what is allowed. Nothing here opens
// anything but the file it is told to read; cmd turns the result into parts.
package config

import (
	"net/netip"
	"time"
)

// Config is one whole configuration. The comment of each field is its manual.
type Config struct {
	Listen         []string       // addresses to serve: "host:port", ":port" or "unix:/path"; at least one
	Backend        Backend        // where requests go
	CPUCount       float64        // CPUs that the backend has; 0: as many as this machine (its cgroup) has
	TrustedProxies []netip.Prefix // peers whose forwarded headers count; empty: nobody's do
	Underscores    bool           // header names with an underscore reach the backend
	Upgrades       []string       // the protocols that a connection may change to
	Via            string         // what the proxy calls itself in Via; empty: it adds none
	AddressHeader  string         // where they tell the client's address: X-Forwarded-For, Forwarded, X-Real-IP, CF-Connecting-IP, True-Client-IP or none
	Throttle       Throttle       // how debt is acted on
	Gate           Gate           // the queue before the backend
	Standing       Standing       // what evidence that a client is a person counts
	Newcomers      Newcomers      // how browsers that have never been here are told from programs
	State          string         // the file that keeps who is known over a restart; empty: none
	History        History        // what is kept of the last week
	Classes        []Class        // in the order slash32, slash24, slash16, userAgent, then as written
	Exempt         []Exemption    // requests that are never charged or delayed
	Limits         []Limit        // how many requests clients may make, beside what these cost
	Headers        string         // what tells clients of limits: none, ratelimit (X-RateLimit-…) or draft (the IETF's)
	Cost           Cost           // how a request's cost is found
	Table          Table          // the memory for keys
	Timeouts       Timeouts       // how long a client may hold things open
	Buffer         Buffer         // where bodies wait for the backend and for slow clients
	Coordination   Coordination   // whom the sidecar shares its accounts with
	Admin          Admin          // where the doctor and the dashboard connect
	Graphite       Graphite       // where statistics go
	Metrics        string         // "host:port" where Prometheus asks; empty: nowhere
	Log            Log            // what is logged
	Warnings       []string       // what was given and has no effect any more, each in a line
}

// Backend is the server that the proxy stands before. A plain string in the
// file is its URL.
type Backend struct {
	URL         string        // http://host[:port], https://host[:port] or unix:/path
	DialTimeout time.Duration // longest wait for a connection, then 502
	Timeout     time.Duration // longest wait for the response's header, then 504
	Workers     int           // most requests there at a time, a ceiling for what is learnt; 0: only learnt
}

// Gate is the shape of the queue before the backend.
type Gate struct {
	Heavy     int     // requests of a size, and shorter, that may compute at a time; 0: follows the CPU use
	Strangers float64 // least share of all clients together that are not known yet
	Usage     string  // whose CPU use: machine, off, or a directory of cgroup v2
}

// Standing is what evidence that a client is a person's browser counts.
type Standing struct {
	Enabled  bool           // whether any does
	Attested float64        // by how much the backend's word multiplies a client's share, 1 to 8
	Trusted  []netip.Prefix // networks whose clients need no other evidence
}

// Newcomers says how browsers that have never been here are told from programs.
type Newcomers struct {
	Redirect bool // who waits is redirected to the same URL, with a cookie that lets it go first among strangers
}

// History is what is kept of the last hours: what the dearest clients and URLs cost.
type History struct {
	Hours int // how many, 0 (nothing is kept) to 168
}

// Throttle says how debt is acted on.
type Throttle struct {
	Mode             string        // fair, observe, cap or cooperative
	Shadow           bool          // judge and log, delay nobody
	MaxHold          time.Duration // longest delay of a request; who would wait longer is refused
	MaxHeld          int           // most requests held at once
	MaxHeldPerClient int           // most requests held at once of one client
	Memory           time.Duration // longest time that any debt takes to be paid; what would take longer is forgiven
}

// Class is a way of grouping requests, and what each group may use.
type Class struct {
	Name   string        // slash32, slash24, slash16, userAgent, or a name of one's own
	Header string        // a class of one's own: group by the value of this request header
	Path   bool          // a class of one's own: group by the shape of the path
	Share  float64       // part of all CPUs that each key may use steadily, above 0 to 1
	Burst  time.Duration // most CPU time that a key can save up
	Cap    bool          // a hard ceiling in every mode
	Shadow bool          // judge and count, never act
}

// Exemption matches requests that are never charged or delayed. All that is
// given must match.
type Exemption struct {
	CIDR netip.Prefix // the client's address lies in it; the zero Prefix: any
	Path string       // the path is this, or begins so if it ends in *; empty: any
}

// Cost says how a request's cost is found.
type Cost struct {
	Source string // corrected, wall or header
}

// Table bounds the memory for keys.
type Table struct {
	Size int // most keys remembered, over all classes; 1024 to 4194304
}

// Timeouts bound what a client can hold open.
type Timeouts struct {
	Header  time.Duration // from the first byte of a request to the end of its header
	Body    time.Duration // longest pause inside a request's body
	Write   time.Duration // longest time a client takes to accept a piece of the response
	Idle    time.Duration // longest pause between two requests of a connection
	Upgrade time.Duration // after an upgrade (WebSocket): longest time without a byte in either direction
	Drain   time.Duration // after SIGTERM: longest time for what is under way to finish
}

// Buffer is where bodies wait, so that they do not hold a worker of the
// backend: requests until they are there as a whole, responses until slow
// clients have read them. All sizes are in bytes.
type Buffer struct {
	RequestMemory  int64   // most of a request's body in memory; the rest goes to a file
	Request        int64   // most of a request's body in all; what is larger streams; 0: all do
	ResponseMemory int64   // most of a response that waits in memory; the rest goes to a file
	Response       int64   // most of a response that waits in all; 0: responses stream
	Memory         int64   // most memory of all together
	Disk           int64   // most bytes in files of all together; 0: half of what is free on the disk
	Directory      string  // of the files, which have no names; on a disk
	PerAddress     float64 // part of Memory and of Disk that one address may use, above 0 to 1
}

// Coordination names whom the sidecar shares its accounts with.
type Coordination struct {
	Kind     string // none, smockron, redis or gossip
	Smockron Smockron
	Redis    Redis // of kind redis, and for strict limits
	Gossip   Gossip
}

// Admin is where the doctor connects, and the dashboard.
type Admin struct {
	Listen string   // "unix:/path"; empty: no admin API there
	Web    string   // "host:port" or ":port" for browsers; empty: none
	Token  string   // the file of the token that Web asks for; empty: none
	Hosts  []string // names that Web is reached by, beside addresses and localhost
}

// Graphite is where statistics go.
type Graphite struct {
	Address  string        // "host:port"; empty: nowhere
	Prefix   string        // before each series; {hostname} is replaced
	Interval time.Duration // how often
}

// Log says what is logged.
type Log struct {
	Level          string        // debug, info, warn or error
	Access         string        // off, sampled or all
	Format         string        // of the requests: json or combined
	DelayThreshold time.Duration // keys whose average wait is over it are logged and counted
}
