package main

import (
	"errors"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/telemetry/metrics"
)

// source is the origin of the configuration, at the start and at each reload.
type source struct {
	file string // empty: the defaults and the environment
	env  []string
}

// findFile returns the configuration file to use: the given one, otherwise the first of the usual ones that exists,
// otherwise none.
func findFile(named string) string {
	if named != "" {
		return named
	}
	for _, f := range []string{usualFile, originalFile} {
		if _, err := os.Stat(f); !errors.Is(err, fs.ErrNotExist) {
			return f
		}
	}
	return ""
}

func (s source) load() (*config.Config, error) {
	return config.Load(s.file, s.env) // without a file: the defaults
}

// loaded is the current configuration, and the results of reloads. Unlike sidecar.config, it can be read during a
// reload. A value is immutable.
type loaded struct {
	*config.Config
	reloads  uint64
	rejected uint64
	faulty   bool     // the last reload was rejected
	waiting  []string // keys whose changes take effect only after a restart
}

// with returns the state after a reload has applied a configuration, except for changes that need a restart.
func (l loaded) with(c *config.Config, changes []config.Change) *loaded {
	l.Config, l.faulty, l.waiting = c, false, nil
	l.reloads++
	for _, change := range changes {
		if change.NeedsRestart {
			l.waiting = append(l.waiting, change.Key)
		}
	}
	return &l
}

// tell fills in the metrics about the configuration and its reloads.
func (l *loaded) tell(n *metrics.State) {
	n.Mode, n.Shadow, n.CPUs = l.Throttle.Mode, l.Throttle.Shadow, policy.CPUs(l.Config)
	n.Reloads, n.Rejected, n.ReloadOK = l.reloads, l.rejected, !l.faulty
}

// reload reads the configuration again and applies all of it, or nothing. If it is invalid, each error is
// logged and the current configuration stays. No listener, connection, waiting request or debt is lost.
func (s *sidecar) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	daemon.Notify(s.logs.log, daemon.Reloading())
	defer daemon.Notify(s.logs.log, daemon.Ready)
	c, err := s.source.load()
	if err == nil {
		err = refuseCircle(c, s.succession.sockets)
	}
	if err != nil {
		return s.rejectLocked(err)
	}
	policy, err := s.policies.make(c, s.encryption.load)
	if err != nil {
		return s.rejectLocked(err)
	}
	s.warn(c)
	changes := s.changes(c)
	daemon.LogChanges(s.logs.log, changes)
	s.handler.SetPolicy(policy)
	s.sharing.Reload(policy.Limits)
	daemon.SetLevel(s.logs.level, c.Log.Level)
	s.watchWorkers(c)
	s.bills.restart(c)
	s.priorities.restart(c)
	s.grant(c.Admin)
	s.config = c
	s.statistics.setNames(c)
	s.loaded.Store(s.loaded.Load().with(c, changes))
	s.logs.log.Info("reloaded", zap.String("file", s.source.file), zap.Int("changes", len(changes)))
	return nil
}

// changes lists the keys that a reload changes. A change of the certificates needs a restart if another change of TLS
// does.
func (s *sidecar) changes(c *config.Config) []config.Change {
	before, begun := config.Changed(s.config, c), config.Changed(s.begun, c)
	for _, all := range [][]config.Change{before, begun} {
		for i := range all {
			all[i].NeedsRestart = all[i].NeedsRestart || all[i].Key == "tls.certificates" && s.encryption.waits(c)
		}
	}
	return config.Reloaded(before, begun)
}

// warn logs the configuration's warnings, such as keys without effect.
func (s *sidecar) warn(c *config.Config) {
	for _, warning := range c.Warnings {
		s.logs.log.Warn("configuration", zap.String("warning", warning))
	}
}

func (s *sidecar) rejectLocked(err error) error {
	now := *s.loaded.Load()
	now.faulty = true
	now.rejected++
	s.loaded.Store(&now)
	daemon.LogRejected(s.logs.log, err)
	return err
}
