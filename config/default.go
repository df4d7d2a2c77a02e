package config

import (
	"net/netip"
	"time"
)

// Default is the configuration of an empty file. Loopback peers are trusted,
// because only what runs on this machine, such as a local TLS terminator, can
// connect from there.
func Default() *Config {
	return &Config{
		Listen:  []string{":8888"},
		Backend: Backend{URL: "http://127.0.0.1:80", DialTimeout: 5 * time.Second, Timeout: 300 * time.Second},
		TrustedProxies: []netip.Prefix{
			netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("::1/128"),
		},
		AddressHeader: "X-Forwarded-For",
		Upgrades:      []string{"websocket"},
		Throttle: Throttle{
			Mode: "fair", MaxHold: 30 * time.Second, MaxHeld: 512, MaxHeldPerClient: 64,
			Memory: 120 * time.Second,
		},
		Gate:      Gate{Strangers: 0.5, Usage: "machine"},
		Standing:  Standing{Enabled: true, Attested: 4},
		Newcomers: Newcomers{Redirect: true},
		State:     "/var/lib/tempomat/state",
		History:   History{Hours: mostHistory},
		Classes: []Class{
			{Name: "slash32", Share: 0.10, Burst: defaultBurst},
			{Name: "slash24", Share: 0.25, Burst: defaultBurst},
			{Name: "slash16", Share: 0.50, Burst: defaultBurst},
			{Name: "userAgent", Share: 0.10, Burst: 120 * time.Second},
		},
		Headers: "none",
		Cost:    Cost{Source: "corrected"},
		Table:   Table{Size: 65536},
		Timeouts: Timeouts{
			Header: 10 * time.Second, Body: 60 * time.Second, Write: 60 * time.Second,
			Idle: 75 * time.Second, Upgrade: time.Hour, Drain: 30 * time.Second,
		},
		Buffer: Buffer{
			RequestMemory: 64 << 10, Request: 1 << 30, ResponseMemory: 64 << 10, Response: 1 << 30,
			Memory: 32 << 20, Directory: "/var/tmp", PerAddress: 0.25,
		},
		Coordination: Coordination{Kind: "none", Smockron: Smockron{Site: "site", Queue: 16384}, Redis: defaultRedis(), Gossip: defaultGossip()},
		Admin:        Admin{Listen: "unix:/run/tempomat/admin.sock"},
		Graphite:     Graphite{Prefix: "sites.{hostname}", Interval: 60 * time.Second},
		Log:          Log{Level: "info", Access: "sampled", Format: "json", DelayThreshold: 100 * time.Millisecond},
	}
}

// mostHistory is the longest history, in hours: a week.
const mostHistory = 168

// defaultBurst is the burst of a class that gives none.
const defaultBurst = 30 * time.Second
