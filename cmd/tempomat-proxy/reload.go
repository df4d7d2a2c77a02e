package main

import (
	"context"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
)

// reload reads the configuration again and puts it in force, as a whole or not
// at all: a bad one is logged, fault by fault, and the running one stays.
// Listeners, connections, held requests and every debt survive.
func (s *sidecar) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	daemon.Notify(s.logs.log, daemon.Reloading())
	defer daemon.Notify(s.logs.log, daemon.Ready)
	c, err := s.source.load()
	if err == nil {
		err = s.source.refuseCircle(context.Background(), c, servedAt(s.replaced.sockets))
	}
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
	changes := config.Reloaded(config.Changed(s.config, c), config.Changed(s.begun, c))
	daemon.LogChanges(s.logs.log, changes)
	s.handler.SetPolicy(policy)
	s.sharing.Reload(policy.Limits)
	daemon.SetLevel(s.logs.level, c.Log.Level)
	s.accessLog.SetCombined(s.logs.lines(c.Log.Format))
	if s.config.Graphite != c.Graphite || s.config.Log.DelayThreshold != c.Log.DelayThreshold {
		s.reports.restart(c)
	}
	s.watchWorkers(c)
	s.bills.restart(c)
	s.priorities.restart(c)
	s.grant(c.Admin)
	s.config = c
	s.inside.setNames(c)
	s.loaded.put(c, changes)
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
	daemon.LogRejected(s.logs.log, err)
	return err
}
