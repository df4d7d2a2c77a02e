package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"tempomat/classify/newcomer"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy"
)

// gcPercent trades a little memory for CPU: the heap is small, requests are many.
const gcPercent = 300

// sidecar is the running program.
type sidecar struct {
	source   source
	started  time.Time
	logs     *logs
	policies policies
	sharing  *sharing
	limiter  *limiter.Limiter
	hints    *proxy.WorkerHints
	state    stateFile
	journal  *proxy.Journal
	handler  *proxy.Handler
	server   *proxy.Server

	connections *connections

	mu       sync.Mutex // guards the following: one reload at a time
	config   *config.Config
	reports  *reports
	reloads  uint64
	rejected uint64
}

// newSidecar makes the parts; it opens nothing.
func newSidecar(c *config.Config, s source, stderr io.Writer) (*sidecar, error) {
	car := &sidecar{source: s, started: time.Now(), logs: newLogs(stderr), config: c}
	car.logs.setLevel(c.Log.Level)
	car.policies.log = car.logs.log
	standing, err := newStanding()
	if err != nil {
		return nil, err
	}
	car.policies.standing = standing
	car.policies.newcomer = newcomer.New(car.started)
	if car.policies.counts, err = newRequestCounts(c); err != nil {
		return nil, err
	}
	policy, err := car.policies.make(c)
	if err != nil {
		return nil, err
	}
	if car.sharing, err = newSharing(c, car.logs.log); err != nil {
		return nil, err
	}
	car.limiter = limiter.New(car.started, policy.Limits, c.Table.Size, car.sharing.sharer)
	car.policies.counts.accounts = car.limiter
	car.state = stateFile{path: c.State, log: car.logs.log, parts: map[string]memory{
		"known": car.limiter.Known(), "standing": standing, "newcomers": car.policies.newcomer,
	}}
	car.journal = proxy.NewJournal(car.logs.access)
	car.handler = proxy.NewHandler(car.limiter, policy, car.journal)
	car.handler.TellWorkers(func(n int, by string) {
		car.logs.log.Info("learnt how many workers the backend has", zap.Int("workers", n), zap.String("by", by))
	})
	car.reports = &reports{ledger: car.limiter, journal: car.journal, log: car.logs.log}
	if car.connections, err = newConnections(car.started, car.logs.log); err != nil {
		return nil, err
	}
	car.server = proxy.NewServer(car.handler, proxy.ServerOptions{
		Header: c.Timeouts.Header, Idle: c.Timeouts.Idle, Linger: linger, Log: car.logs.log,
		Table: car.connections.table, Peer: car.peer,
	})
	return car, nil
}

// linger is for how long connections that are open are served as the program ends:
// longer than from one request of a page to the next.
const linger = 250 * time.Millisecond

// serve runs the sidecar until the context ends and what is under way has
// finished.
func serve(ctx context.Context, c *config.Config, s source, stderr io.Writer) error {
	car, err := newSidecar(c, s, stderr)
	if err != nil {
		return err
	}
	defer car.logs.close()
	listeners, err := inherited()
	if len(listeners) > 0 {
		car.logs.log.Info("serves sockets that were handed over (LISTEN_FDS): listen has no effect")
	} else if err == nil {
		listeners, err = listen(ctx, c.Listen)
	}
	if err != nil {
		return err
	}
	return car.run(ctx, listeners)
}

// listen opens all addresses, or none.
func listen(ctx context.Context, addresses []string) (ls []net.Listener, err error) {
	for _, a := range addresses {
		l, e := proxy.Listen(ctx, a)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("listen on %s: %w", a, e))
			continue
		}
		ls = append(ls, l)
	}
	if err != nil {
		for _, l := range ls {
			_ = l.Close()
		}
		return nil, err
	}
	return ls, nil
}

func (s *sidecar) run(ctx context.Context, listeners []net.Listener) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	work, stop := context.WithCancel(context.Background()) // outlives ctx by the drain
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	defer s.connections.reserve.Close()
	s.state.load()
	all.Go(func() { s.state.run(work) })
	all.Go(func() { s.handler.Drive(work) })
	all.Go(func() { s.sharing.run(work, s.limiter, s.logs.log) })
	if use := s.openUsage(); use != nil {
		all.Go(func() { use.Run(work, s.handler.Measure) })
	}
	s.openHints()
	all.Go(func() { s.hints.Run(work, s.limiter, s.limiter) })
	s.reports.restart(s.config)
	defer s.reports.stop()
	if door := s.openAdmin(s.config.Admin.Listen); door != nil {
		all.Go(func() { s.serveAdmin(work, door, ctx.Err) }) // not ready while draining
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	failed := make(chan error, 1)
	all.Go(func() { failed <- s.server.Serve(s.connections.guard(listeners)) })
	s.announce(listeners)
	for {
		select {
		case <-hangups:
			_ = s.reload() // it has logged what is wrong
		case err := <-failed:
			return err
		case <-ctx.Done():
			return s.drain()
		}
	}
}

func (s *sidecar) announce(listeners []net.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []string
	for _, l := range listeners {
		at = append(at, l.Addr().String())
	}
	s.logs.log.Info("serving", zap.String("version", version), zap.Strings("listen", at),
		zap.String("backend", s.config.Backend.URL), zap.String("mode", s.config.Throttle.Mode),
		zap.Float64("cpus", cpus(s.config)), zap.String("file", s.source.file))
	s.warn(s.config)
	s.notify(daemon.SdNotifyReady)
}

// drain lets what is under way finish, the held requests included.
func (s *sidecar) drain() error {
	s.mu.Lock()
	limit := s.config.Timeouts.Drain
	s.mu.Unlock()
	s.notify(daemon.SdNotifyStopping)
	s.logs.log.Info("draining", zap.Duration("limit", limit), zap.Int("held", s.limiter.Held()))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := s.server.Drain(ctx); err != nil {
		s.logs.log.Warn("cut what did not finish", zap.Error(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies.upstream.Close()
	s.policies.counts.close()
	s.logs.log.Info("ended")
	return nil
}

// notify tells systemd, if it asked to be told.
func (s *sidecar) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.logs.log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}
