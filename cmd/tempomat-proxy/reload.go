package main

import (
	"errors"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"tempomat/config"
)

// reload reads the configuration again and puts it in force, as a whole or not
// at all: a bad one is logged, fault by fault, and the running one stays.
// Listeners, connections, held requests and every debt survive.
func (s *sidecar) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec()) // when, for Type=notify-reload
	defer s.notify(daemon.SdNotifyReady)
	c, err := s.source.load()
	if err != nil {
		return s.rejectLocked(err)
	}
	policy, err := s.policies.make(c)
	if err != nil {
		s.inside.setNames(s.config)
		s.policies.keepDatabases(s.config)
		return s.rejectLocked(err)
	}
	if err := s.encryption.load(c); err != nil {
		s.logs.log.Error("the certificates before stay", zap.Error(err))
	}
	s.warn(c)
	changes := config.Changed(s.config, c)
	for _, change := range changes {
		s.logChange(change)
	}
	s.handler.SetPolicy(policy)
	s.setShadow(c)
	if s.sharing.setPolicy != nil {
		s.sharing.setPolicy(policy.Limits)
	}
	s.logs.setLevel(c.Log.Level)
	s.journal.SetCombined(s.logs.lines(c.Log.Format))
	if s.config.Graphite != c.Graphite || s.config.Log.DelayThreshold != c.Log.DelayThreshold {
		s.reports.restart(c)
	}
	s.watchWorkers(c)
	s.bills.restart(c)
	s.priorities.restart(c)
	s.grant(c.Admin)
	s.keepSystems(c)
	s.sharing.rekey(s.config, s.logs.log) // the keys of the running configuration: where they are is not reloaded
	s.config = c
	s.inside.setNames(c)
	s.loaded.put(c)
	s.logs.log.Info("reloaded", zap.String("file", s.source.file), zap.Int("changes", len(changes)))
	return nil
}

// warn logs what the configuration gives in vain.
func (s *sidecar) warn(c *config.Config) {
	for _, warning := range c.Warnings {
		s.logs.log.Warn("configuration", zap.String("warning", warning))
	}
}

func (s *sidecar) rejectLocked(err error) error {
	s.loaded.reject()
	var faults config.Faults
	if !errors.As(err, &faults) {
		s.logs.log.Error("configuration rejected; the running one stays", zap.Error(err))
		return err
	}
	for _, f := range faults {
		s.logs.log.Error("configuration rejected; the running one stays", zap.String("fault", f.Error()),
			zap.Int("line", f.Line), zap.String("key", f.Key))
	}
	return err
}

func (s *sidecar) logChange(c config.Change) {
	fields := []zap.Field{zap.String("key", c.Key), zap.String("old", c.Old), zap.String("new", c.New)}
	if c.NeedsRestart {
		s.logs.log.Warn("changed, but only a restart can put it in force", fields...)
		return
	}
	s.logs.log.Info("changed", fields...)
}
