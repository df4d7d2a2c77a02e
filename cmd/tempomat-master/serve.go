package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
	"tempomat/limiter"
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
	ledger  *ledger

	mu       sync.Mutex // guards the following: one reload at a time
	config   *config.Master
	begun    *config.Master // that of the start, which is in force where a change needs a restart
	statsd   *statsd
	reloads  uint64
	rejected uint64
}

// newServer makes the parts; it opens nothing.
func newServer(c *config.Master, file string, output *daemon.Output) *server {
	level := zap.NewAtomicLevel()
	log := daemon.NewLog(output, level)
	s := &server{
		file: file, output: output, log: log, level: level, started: time.Now(), config: c, begun: c,
		master: master.New(settings(c)), ledger: newLedger(log.Named("accounting")),
	}
	s.statsd = &statsd{state: s.master.State, log: log}
	s.apply(c)
	return s
}

// apply puts in force what can change while the master runs, except for its rules.
func (s *server) apply(c *config.Master) {
	daemon.SetLevel(s.level, c.Log.Level)
	s.ledger.limit(c.Log.Accounting)
	s.statsd.to.Store(&c.Statsd)
}

// run serves until the context ends.
func (s *server) run(ctx context.Context) error {
	c := s.config
	options := master.ServeOptions{
		Addresses: smockron.Addresses(c.Listen), Queue: c.Queue, Now: time.Now,
		Seen: s.ledger.note, Trouble: s.storeTrouble,
	}
	if c.Store != "" {
		store, err := master.OpenRedisStore(c.Store)
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
	all.Go(func() { s.statsd.run(ctx) })
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // before anything can take long: unheeded, it would end the program
	defer signal.Stop(hangups)
	all.Go(func() { s.reloadOn(ctx, hangups) })
	if l := daemon.ListenMetrics(ctx, c.Metrics, s.log); l != nil {
		all.Go(func() { daemon.Serve(ctx, l, s.metricsHandler(), "metrics", s.log) })
	}
	if l := s.listenAdmin(ctx, c.Admin.Listen); l != nil {
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
			_ = s.reload() // it has logged what is wrong
		}
	}
}

// reload reads the configuration again and puts it in force, as a whole or not at
// all. Domains whose rules stay the same keep what is known of their identifiers.
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
	s.apply(c)
	s.config = c
	s.reloads++
	s.log.Info("reloaded", zap.String("file", s.file))
	return nil
}

// storeTrouble logs that the store went away, or is back.
func (s *server) storeTrouble(err error) {
	if err != nil {
		s.log.Warn("can't reach the store; state stays in memory until it is back", zap.Error(err))
	} else {
		s.log.Info("the store is back")
	}
}

// settings are the configuration's rules as the master takes them.
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

// ledger logs accounting, but no more than so many lines in a second.
type ledger struct {
	log     *zap.Logger
	limited atomic.Pointer[zap.Logger]
}

func newLedger(log *zap.Logger) *ledger { return &ledger{log: log} }

func (l *ledger) limit(lines int) {
	l.limited.Store(l.log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(core, time.Second, lines, 0)
	})))
}

// note logs one message, if there is room for it in this second.
func (l *ledger) note(a *smockron.Accounting) {
	if a.Resync {
		return
	}
	entry := l.limited.Load().Check(zap.InfoLevel, "accounting")
	if entry == nil {
		return
	}
	status := map[limiter.Event]string{limiter.Delayed: "DELAYED", limiter.Rejected: "REJECTED"}[a.Event]
	fields := []zap.Field{
		zap.ByteString("domain", a.Domain), zap.String("status", cmp.Or(status, "ACCEPTED")), zap.ByteString("identifier", a.Identifier),
		zap.Time("received", time.UnixMilli(a.Received)),
	}
	if a.Event == limiter.Delayed {
		fields = append(fields, zap.Duration("delayed", time.Duration(a.Until-a.Received)*time.Millisecond))
	}
	if a.HasCost {
		fields = append(fields, zap.Duration("cost", a.Cost))
	}
	if info := a.Words(); len(info) > 0 {
		fields = append(fields, zap.ByteString("info", info))
	}
	entry.Write(fields...)
}
