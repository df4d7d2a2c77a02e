package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// server is the running program.
type server struct {
	file    string
	output  *daemon.Output
	log     *zap.Logger
	level   zap.AtomicLevel
	started time.Time
	master  *master.Master

	mu       sync.Mutex // guards the fields below, so only one reload runs at a time
	config   *config.Master
	begun    *config.Master // the configuration at the start, whose values stay in use for settings that need a restart
	reloads  uint64
	rejected uint64
}

// newServer makes a server. It opens no sockets or files.
func newServer(c *config.Master, file string, output *daemon.Output) *server {
	level := zap.NewAtomicLevel()
	log := daemon.NewLog(output, level)
	s := &server{
		file: file, output: output, log: log, level: level, started: time.Now(), config: c, begun: c,
		master: master.New(settings(c)),
	}
	s.adopt(c)
	return s
}

// adopt sets the log level, and logs the keys in the file that have no effect.
func (s *server) adopt(c *config.Master) {
	daemon.SetLevel(s.level, c.LogLevel)
	for _, warning := range c.Warnings {
		s.log.Warn(warning)
	}
}

// run serves until the context ends.
func (s *server) run(ctx context.Context) error {
	c := s.config
	options := master.ServeOptions{
		Addresses: smockron.Addresses(c.Listen), Now: time.Now, Trouble: s.storeTrouble,
	}
	if c.Store != "" {
		store, err := master.OpenStore(c.Store)
		if err != nil {
			return err
		}
		defer store.Close()
		options.Store = store
	}
	ctx, end := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // first, because until then SIGHUP ends the program
	defer signal.Stop(hangups)
	all.Go(func() { s.reloadOn(ctx, hangups) })
	if l := daemon.ListenMetrics(ctx, c.Metrics, s.log); l != nil {
		all.Go(func() { daemon.Serve(ctx, l, s.metricsHandler(), "metrics", s.log) })
	}
	if l := daemon.ListenAdmin(ctx, c.Admin.Listen, s.log); l != nil {
		all.Go(func() { daemon.Serve(ctx, l, s.adminHandler(), "admin API", s.log) })
	}
	options.Ready = func() {
		s.log.Info("serving", zap.String("version", version), zap.String("accounting", options.Addresses.Accounting),
			zap.String("control", options.Addresses.Control), zap.Int("domains", len(c.Domains)), zap.String("file", s.file))
		daemon.Notify(s.log, daemon.Ready)
	}
	err := master.Serve(ctx, s.master, options)
	daemon.Notify(s.log, daemon.Stopping)
	s.log.Info("ended")
	return err
}

func (s *server) reloadOn(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			_ = s.reload() // reload has logged the error
		}
	}
}

// reload reads the file again and applies all of it, or nothing if the file is invalid. Domains whose rules don't
// change keep the state of their identifiers.
func (s *server) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	daemon.Notify(s.log, daemon.Reloading())
	defer daemon.Notify(s.log, daemon.Ready)
	c, err := config.LoadMaster(s.file)
	if err != nil {
		s.rejected++
		daemon.LogRejected(s.log, err)
		return err
	}
	daemon.LogChanges(s.log, config.Reloaded(config.ChangedMaster(s.config, c), config.ChangedMaster(s.begun, c)))
	s.master.Configure(settings(c))
	s.adopt(c)
	s.config = c
	s.reloads++
	s.log.Info("reloaded", zap.String("file", s.file))
	return nil
}

// storeTrouble logs that the store has failed or works again.
func (s *server) storeTrouble(err error) {
	if err != nil {
		s.log.Warn("can't reach the store; the state stays in memory until the store is back", zap.Error(err))
	} else {
		s.log.Info("the store is back")
	}
}

// settings converts the configuration for the master.
func settings(c *config.Master) master.Settings {
	s := master.Settings{MaxSkew: c.MaxSkew}
	for _, d := range c.Domains {
		n := master.Domain{Name: d.Name, Identifiers: c.Identifiers}
		for _, r := range d.Rules {
			kind := map[string]master.Kind{"bucket": master.Bucket, "history": master.History, "credit": master.Credit}[r.Rule]
			n.Rules = append(n.Rules, master.Rule{Kind: kind, Interval: r.Interval, Burst: r.Burst, CPUs: r.CPUs, Memory: r.Memory})
		}
		s.Domains = append(s.Domains, n)
	}
	return s
}
