package main

import (
	"sync"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/telemetry/metrics"
)

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

// put says that a reload put one in force, but for the changes that wait for a restart.
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

// reject says that one was rejected.
func (l *loaded) reject() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faulty = true
	l.rejected++
}

// rejects tells whether the last configuration was rejected.
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
