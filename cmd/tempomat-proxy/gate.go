package main

import (
	"crypto/rand"
	"net/url"
	"time"

	"go.uber.org/zap"

	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/host"
)

// standing is what judges it, with the configuration's values; nil if that is
// off. It is made once, as a reload must not forget whom it has seen.
func (p *policies) standingOf(c *config.Config) (*standing.Judge, error) {
	if !policy.JudgesStanding(c) {
		return nil, nil
	}
	return p.standing, p.standing.Configure(policy.Standing(c))
}

// newcomersOf is what redirects newcomers; nil if that is off, or nobody waits.
func (p *policies) newcomersOf(c *config.Config) *newcomer.Redirector {
	if !c.Newcomers.Redirect || !c.Throttle.GateActs() {
		return nil
	}
	return p.newcomer
}

// newStanding makes one that has seen nobody.
func newStanding() (*standing.Judge, error) {
	var secret [16]byte
	rand.Read(secret[:]) // it never fails
	return standing.New(secret, standing.Config{})
}

// watchWorkers has the hints look at the backend if it runs on this machine and
// there is a gate that makes something of them.
func (s *sidecar) watchWorkers(c *config.Config) {
	u, err := url.Parse(c.Backend.URL)
	if err == nil && policy.IsLocal(c.Backend.URL) && c.Throttle.HasGate() {
		s.backend.Watch(u)
		return
	}
	s.backend.Watch(nil)
}

// learner passes on what is seen of the backend.
type learner struct {
	*limiter.Limiter
	handler *proxy.Handler
}

// Backlog implements host.Learner.
func (l learner) Backlog(now time.Time, queued, processes int) {
	l.handler.Crowd(queued > 0)
	l.Limiter.Backlog(now, queued, processes)
}

// endHints has the backend's processes be as they were, and measures no more, whatever is
// reloaded.
func (s *sidecar) endHints() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.priorities.end()
	s.bills.end()
}

// openHints opens what tells of the backend's workers, of their CPU time, and of
// their priority.
func (s *sidecar) openHints() {
	backend, err := host.OpenBackend()
	if err != nil {
		s.logs.log.Warn("the queue in front of the backend's workers is not seen", zap.Error(err))
	}
	s.backend = backend
	s.watchWorkers(s.config)
	s.bills.handler, s.bills.log = s.handler, s.logs.log
	s.bills.restart(s.config)
	s.priorities.handler, s.priorities.log = s.handler, s.logs.log
	s.priorities.restart(s.config)
	s.costs.Note(time.Now(), s.handler.Policy().Meter.Sums()) // so that nothing at the start is missed
}

// openUsage opens what measures the CPU use, of which the backend's own is told apart; nil if nothing does.
func (s *sidecar) openUsage(backend *host.Backend) *host.UsageMeter {
	c := s.config
	if !policy.MeasuresUse(c) {
		if c.Gate.Heavy == 0 {
			s.logs.log.Warn("the backend's CPU use is not measured: as many requests of a size at a time as CPUs; set gate.heavy if it has others",
				zap.String("backend", c.Backend.URL), zap.Int("heavy", policy.Room(c)))
		}
		return nil
	}
	cgroup := c.Gate.Usage
	if cgroup == "machine" {
		cgroup = ""
	}
	use, err := host.OpenUsage(cgroup, policy.CPUs(c), backend)
	if err != nil {
		s.logs.log.Warn("the number of requests that compute at a time follows nothing", zap.Error(err))
		return nil
	}
	use.Lost = func(err error) {
		s.logs.log.Warn("the number of requests that compute at a time stays as it is", zap.Error(err))
	}
	use.Steps = s.handler.Steps
	return use
}
