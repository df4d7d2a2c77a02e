package policy

import (
	"math"
	"net/netip"
	"net/url"
	"runtime"

	"tempomat/classify/standing"
	"tempomat/config"
	"tempomat/cpuaccount"
)

// SessionClass is the class of clients that are known by a session. It is no
// class of the configuration: a session has its address's share.
const SessionClass = config.SessionClass

// CPUs is how many CPUs shares are parts of. GOMAXPROCS knows the limits of this
// process's cgroup and its affinity.
func CPUs(c *config.Config) float64 {
	if c.CPUCount > 0 {
		return c.CPUCount
	}
	return float64(runtime.GOMAXPROCS(0))
}

// Meter makes what measures the cost of requests, as cost.source says, on so many CPUs. How
// many workers there are it is told as the gate learns it.
func Meter(source string, cpus float64) *cpuaccount.Meter {
	from := cpuaccount.Corrected
	switch source {
	case "wall":
		from = cpuaccount.Wall
	case "header":
		from = cpuaccount.Header
	case "process", "auto":
		from = cpuaccount.Process
	}
	return cpuaccount.NewMeter(from, cpus, 0)
}

// JudgesStanding tells whether the evidence that a client is a person counts.
// Only the gate makes something of it.
func JudgesStanding(c *config.Config) bool {
	return c.Standing.Enabled && c.Throttle.HasGate()
}

// Standing is how evidence that a client is a person's browser is judged.
func Standing(c *config.Config) standing.Config {
	return standing.Config{
		Attested: c.Standing.Attested, Trusted: c.Standing.Trusted,
		ClientClass: c.Classes[0].Name, SessionClass: SessionClass,
	}
}

// Room is how many requests of a size may compute at a time; 0: they follow the CPU
// use.
func Room(c *config.Config) int {
	if c.Gate.Heavy == 0 && !MeasuresUse(c) {
		return int(math.Ceil(max(1, CPUs(c))))
	}
	return c.Gate.Heavy
}

// MeasuresUse tells whether the CPU use that can be measured here is the
// backend's.
func MeasuresUse(c *config.Config) bool {
	return c.Gate.Usage != "off" && IsLocal(c.Backend.URL)
}

// IsLocal tells whether a backend runs on this machine.
func IsLocal(backend string) bool {
	u, err := url.Parse(backend)
	if err != nil {
		return false
	}
	if u.Scheme == "unix" || u.Hostname() == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(u.Hostname())
	return err == nil && a.IsLoopback()
}
