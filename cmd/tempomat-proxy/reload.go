package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/telemetry/metrics"
)

// source is where the configuration comes from, again at each reload.
type source struct {
	file string // empty: the defaults and the environment
	env  []string
}

// findFile returns the file to use. Only one that is named has to exist.
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

// loaded is what came of the configurations that were read.
type loaded struct {
	mu       sync.Mutex // guards the following
	config   *config.Config
	reloads  uint64
	rejected uint64
	faulty   bool     // the last one was rejected
	waiting  []string // keys that a restart puts in force
}

// start takes the first one.
func (l *loaded) start(c *config.Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config = c
}

// put says that a reload put one in force, except for the changes that wait for a restart.
func (l *loaded) put(c *config.Config, changes []config.Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.config, l.faulty = c, false
	l.reloads++
	l.waiting = nil
	for _, change := range changes {
		if change.NeedsRestart {
			l.waiting = append(l.waiting, change.Key)
		}
	}
}

// keysWaiting are those that a restart puts in force.
func (l *loaded) keysWaiting() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting
}

// reject logs that one was rejected.
func (l *loaded) reject() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faulty = true
	l.rejected++
}

// rejects reports whether the last configuration was rejected.
func (l *loaded) rejects() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faulty
}

// inForce is the configuration that the program runs by. Unlike sidecar.config it can be
// asked for while a reload goes on.
func (l *loaded) inForce() *config.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.config
}

// tell fills in what is told of it.
func (l *loaded) tell(n *metrics.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.Mode, n.Shadow, n.CPUs = l.config.Throttle.Mode, l.config.Throttle.Shadow, policy.CPUs(l.config)
	n.Reloads, n.Rejected, n.ReloadOK = l.reloads, l.rejected, !l.faulty
}

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
		err = s.source.refuseCircle(context.Background(), c, servedAt(s.succession.sockets))
	}
	if err != nil {
		return s.rejectLocked(err)
	}
	policy, err := s.policies.make(c)
	if err != nil {
		s.statistics.setNames(s.config)
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
	s.statistics.setNames(c)
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
