package main

import (
	"crypto/rand"
	"math"
	"net/netip"
	"net/url"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/config"
	"tempomat/proxy"
)

// sessionClass is the class of clients that are known by a session. It is no
// class of the configuration: a session has its address's share.
const sessionClass = "session"

// judgesStanding tells whether the evidence that a client is a person counts.
// Only the gate makes something of it.
func judgesStanding(c *config.Config) bool {
	return c.Standing.Enabled && hasGate(c)
}

// hasGate tells whether requests go through the gate, or are judged as if they did.
func hasGate(c *config.Config) bool { return c.Throttle.Mode == "fair" || c.Throttle.Mode == "observe" }

// roomOf is how many requests of a size may compute at a time; 0: they follow the CPU
// use.
func roomOf(c *config.Config) int {
	if c.Gate.Heavy == 0 && !measuresUse(c) {
		return int(math.Ceil(max(1, cpus(c))))
	}
	return c.Gate.Heavy
}

// measuresUse tells whether the CPU use that can be measured here is the
// backend's.
func measuresUse(c *config.Config) bool {
	return c.Gate.Usage != "off" && isLocal(c.Backend.URL)
}

// isLocal tells whether a backend runs on this machine.
func isLocal(backend string) bool {
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

// standing is what judges it, with the configuration's values; nil if that is
// off. It is made once, as a reload must not forget whom it has seen.
func (p *policies) standingOf(c *config.Config) (*classify.Standing, error) {
	if !judgesStanding(c) {
		return nil, nil
	}
	return p.standing, p.standing.Configure(standingConfig(c))
}

func standingConfig(c *config.Config) classify.StandingConfig {
	return classify.StandingConfig{
		Attested: c.Standing.Attested, Trusted: c.Standing.Trusted,
		ClientClass: c.Classes[0].Name, SessionClass: sessionClass,
	}
}

// newcomersOf is what redirects newcomers; nil if that is off, or nobody waits.
func (p *policies) newcomersOf(c *config.Config) *newcomer.Redirector {
	if !c.Newcomers.Redirect || c.Throttle.Mode != "fair" || c.Throttle.Shadow {
		return nil
	}
	return p.newcomer
}

// newStanding makes one that has seen nobody.
func newStanding() (*classify.Standing, error) {
	var secret [16]byte
	rand.Read(secret[:]) // it never fails
	return classify.NewStanding(secret, classify.StandingConfig{})
}

// watchWorkers has the hints look at the backend if it runs on this machine and
// there is a gate that makes something of them.
func (s *sidecar) watchWorkers(c *config.Config) {
	u, err := url.Parse(c.Backend.URL)
	if err == nil && isLocal(c.Backend.URL) && hasGate(c) {
		s.hints.Watch(u)
		return
	}
	s.hints.Watch(nil)
}

// openHints opens what tells of the backend's workers.
func (s *sidecar) openHints() {
	hints, err := proxy.OpenWorkerHints()
	if err != nil {
		s.logs.log.Warn("the queue in front of the backend's workers is not seen", zap.Error(err))
	}
	s.hints = hints
	s.watchWorkers(s.config)
}

// openUsage opens what measures the CPU use; nil if nothing does.
func (s *sidecar) openUsage() *proxy.UsageMeter {
	c := s.config
	if !measuresUse(c) {
		if c.Gate.Heavy == 0 {
			s.logs.log.Warn("the backend's CPU use is not measured: as many requests of a size at a time as CPUs; set gate.heavy if it has others",
				zap.String("backend", c.Backend.URL), zap.Int("heavy", roomOf(c)))
		}
		return nil
	}
	cgroup := c.Gate.Usage
	if cgroup == "machine" {
		cgroup = ""
	}
	use, err := proxy.OpenUsage(cgroup, cpus(c))
	if err != nil {
		s.logs.log.Warn("the number of requests that compute at a time follows nothing", zap.Error(err))
		return nil
	}
	use.Lost = func(err error) {
		s.logs.log.Warn("the number of requests that compute at a time stays as it is", zap.Error(err))
	}
	return use
}
