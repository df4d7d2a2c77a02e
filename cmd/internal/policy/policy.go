// Package policy converts a configuration to the options of the limiter, the classifier
// and the meter.
package policy

import (
	"math"
	"net/http"
	"runtime"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// At most maxHeld requests wait, or maxHeldPerCPU for each CPU if that is more, but never more than mostHeld. 1024
// waiting requests need about 40 MB, and a backend that serves 34 requests per second serves them all within the
// longest wait (30 s by default). 64 CPUs empty such a queue within one or two seconds, and a web server with as many
// workers as they need has room for more requests itself.
const maxHeld, maxHeldPerCPU, mostHeld = 1024, 64, 8192

// attested is the factor for the share of a client that counts as a person because the backend vouches for it or its
// network is trusted. A cookie and the loaded parts of pages together give the same factor.
const attested = 4

// Limits returns the limiter's policy.
func Limits(c *config.Config) limiter.Policy {
	p := limiter.Policy{
		Mode:    modeOf(c.Throttle.Mode),
		Shadow:  c.Throttle.Shadow,
		MaxHold: c.Throttle.MaxHold,
		MaxHeld: min(max(maxHeld, int(maxHeldPerCPU*CPUs(c))), mostHeld),
		Memory:  c.Throttle.Memory,
		Gate:    limiter.GateOptions{CPUs: CPUs(c), Workers: c.Backend.Workers, Heavy: Room(c)},
	}
	p.Sites, p.OtherSites = siteInfos(c), c.Sites.Others
	for _, class := range c.Classes {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: class.Name, Budget: limiter.Budget{
			CPUs: class.Share * CPUs(c), Burst: class.Burst, Cap: class.Cap, Shadow: class.Shadow,
			Workers: workersOf(class),
		}})
	}
	if JudgesStanding(c) {
		person := p.Classes[0].Budget              // a session has the same budget as an address
		person.Cap, person.LocalOnly = false, true // because each instance hashes sessions with its own secret
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: config.SessionClass, Budget: person})
	}
	if c.Robots.Enabled {
		p.Classes = append(p.Classes, robotClass(c))
	}
	_, told := toldClasses(c)
	p.Classes = append(p.Classes, told...)
	return p
}

// modeOf returns the mode with that name.
func modeOf(name string) limiter.Mode {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative, limiter.Cap} {
		if m.String() == name {
			return m
		}
	}
	return limiter.Fair
}

// workersOf returns the fraction of the workers that each key of a class may hold, not counting those that
// are kept for short requests.
func workersOf(c config.Class) float64 {
	if c.Header != "" || c.Path {
		return 0
	}
	k, _ := classify.KindOf(c.Name)
	return k.Workers
}

// Unavailable returns the classes whose rejected requests get 503 instead of 429, as other gatekeepers of the same
// domain do.
func Unavailable(c *config.Config) map[string]bool {
	all := make(map[string]bool)
	for _, d := range c.Coordination.Smockron.Domains {
		if d.Status == http.StatusServiceUnavailable && c.Coordination.Kind == "smockron" {
			all[d.Domain] = true
		}
	}
	return all
}

// CPUs returns the number of CPUs to which shares refer. If the number isn't configured, CPUs returns GOMAXPROCS,
// which respects the limits of this process's cgroup and its affinity.
func CPUs(c *config.Config) float64 {
	if c.CPUCount > 0 {
		return c.CPUCount
	}
	return float64(runtime.GOMAXPROCS(0))
}

// Meter makes the meter, which measures costs according to cost.source. It gets the number of workers later,
// from the gate.
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
	return cpuaccount.NewMeter(from, cpus)
}

// JudgesStanding reports whether tempomat looks for evidence that a client is a person. Only the gate uses this.
func JudgesStanding(c *config.Config) bool {
	return c.Throttle.HasGate()
}

// Standing returns the settings for judging the evidence that a client is a person.
func Standing(c *config.Config) standing.Config {
	return standing.Config{
		Attested: attested, Trusted: c.Standing.Trusted,
		ClientClass: c.Classes[0].Name, SessionClass: config.SessionClass,
	}
}

// Room returns the number of requests of a size class that may compute at a time. 0 means that the number follows
// the CPU use.
func Room(c *config.Config) int {
	if c.Gate.Heavy == 0 && !MeasuresUse(c) {
		return int(math.Ceil(max(1, CPUs(c))))
	}
	return c.Gate.Heavy
}

// MeasuresUse reports whether the CPU use of this machine is measured, and includes that of the backend.
func MeasuresUse(c *config.Config) bool {
	return c.Gate.Usage != "off" && c.Backend.IsLocal()
}
