// Package policy makes of a configuration what the limiter, the classifier and the meter
// are told. The sidecar serves by it, and the doctor replays logs by it.
package policy

import (
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// maxHeld is the most requests that wait: a backend that serves 34 in a second serves so many
// within the longest wait, and they take some 40 MB.
const maxHeld = 1024

// attested is what the backend's word that a client is a person, or a trusted network, multiplies
// a share by: what a cookie and the parts of a page are worth together.
const attested = 4

// Limits is what the limiter is told.
func Limits(c *config.Config) limiter.Policy {
	p := limiter.Policy{
		Mode:    modeOf(c.Throttle.Mode, limiter.Fair),
		Shadow:  c.Throttle.Shadow,
		MaxHold: c.Throttle.MaxHold,
		MaxHeld: maxHeld,
		Memory:  c.Throttle.Memory,
		Gate: limiter.GateOptions{
			CPUs: CPUs(c), Workers: c.Backend.Workers,
			Heavy: Room(c),
		}.Complete(),
	}
	p.Sites, p.OtherSites = siteInfos(c), c.Sites.Others
	for _, class := range c.Classes {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: class.Name, Budget: limiter.Budget{
			CPUs: class.Share * CPUs(c), Burst: class.Burst, Cap: class.Cap, Shadow: class.Shadow,
			Workers: workersOf(class),
		}})
	}
	if JudgesStanding(c) {
		person := p.Classes[0].Budget              // a session is a client of its own
		person.Cap, person.LocalOnly = false, true // each sidecar names sessions by a secret of its own
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: SessionClass, Budget: person})
	}
	if c.Robots.Enabled {
		p.Classes = append(p.Classes, robotClass(c))
	}
	_, told := toldClasses(c)
	p.Classes = append(p.Classes, told...)
	return p
}

// modeOf is a mode by its name; without one it is that of all.
func modeOf(name string, all limiter.Mode) limiter.Mode {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Cooperative, limiter.Cap, limiter.Fair} {
		if m.String() == name {
			return m
		}
	}
	return all
}

// workersOf is the part of the workers, of those that are not kept for short
// requests, that each key of a class may hold.
func workersOf(c config.Class) float64 {
	if c.Header != "" || c.Path {
		return 0
	}
	k, _ := classify.KindOf(c.Name)
	return k.Workers
}

// Unavailable are the classes whose refusals say that there is no service, as other gatekeepers
// of their domain do.
func Unavailable(c *config.Config) map[string]bool {
	all := make(map[string]bool)
	for _, d := range c.Coordination.Smockron.Domains {
		if d.Status == http.StatusServiceUnavailable && c.Coordination.Kind == "smockron" {
			all[d.Domain] = true
		}
	}
	return all
}

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

// JudgesStanding reports whether the evidence that a client is a person counts.
// Only the gate makes something of it.
func JudgesStanding(c *config.Config) bool {
	return c.Throttle.HasGate()
}

// Standing is how evidence that a client is a person's browser is judged.
func Standing(c *config.Config) standing.Config {
	return standing.Config{
		Attested: attested, Trusted: c.Standing.Trusted,
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

// MeasuresUse reports whether the CPU use that can be measured here is the
// backend's.
func MeasuresUse(c *config.Config) bool {
	return c.Gate.Usage != "off" && IsLocal(c.Backend.URL)
}

// IsLocal reports whether a backend runs on this machine.
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
