package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-proxy/internal/sharing"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin"
	"tempomat/proxy/handover"
	"tempomat/proxy/host"
	"tempomat/proxy/inspect"
	"tempomat/proxy/telemetry"
)

// sidecar is the running program.
type sidecar struct {
	source      source
	started     time.Time
	logs        *logs
	policies    policies
	sharing     *sharing.Sharing
	limiter     *limiter.Limiter
	backend     *host.Backend
	bills       bills
	priorities  priorities
	costs       cpuaccount.Recent
	state       *stateFile
	accessLog   *telemetry.AccessLog
	statistics  *statistics
	history     *pastHours
	inspector   *inspect.Inspector
	handler     *proxy.Handler
	server      *proxy.Server
	connections *connections
	encryption  *encryption
	connStats   *connStats
	access      admin.Access // over TCP
	loaded      loaded
	tasks       singletonTasks
	fdStore     *fdStore
	inherited   handover.Inherited
	unserved    []handover.Socket // inherited, and not named by the configuration
	succession  succession

	mu      sync.Mutex // guards the following: one reload at a time
	config  *config.Config
	begun   *config.Config // that of the start, which is in force where a change needs a restart
	reports *reports
}

// newSidecar makes the parts; it opens nothing.
func newSidecar(c *config.Config, s source, stderr io.Writer) (*sidecar, error) {
	car := &sidecar{source: s, started: time.Now(), logs: newLogs(stderr), config: c, begun: c}
	daemon.SetLevel(car.logs.level, c.Log.Level)
	car.loaded.start(c)
	car.statistics = newStatistics(car.started, c)
	var err error
	if car.sharing, err = sharing.New(c, car.logs.log); err != nil {
		return nil, err
	}
	car.limiter = limiter.New(car.started, policy.Limits(c), c.Table.Size, car.sharing.Sharer())
	counts, err := newRequestCounts(c, car.statistics.counts, car.limiter)
	if err != nil {
		return nil, err
	}
	if err := car.policies.begin(counts, car.logs.log); err != nil {
		return nil, err
	}
	policy, err := car.policies.make(c)
	if err != nil {
		return nil, err
	}
	car.state = newState(c.State, map[string]memory{
		"known": car.limiter.Known(), "standing": car.policies.standing, "newcomers": car.policies.newcomer,
		"pins": &car.policies.pins, "robots": car.policies.proofs,
	}, car.logs.log)
	car.history = newPastHours(c, car.statistics.words, car.logs.log)
	car.reports = &reports{ledger: car.limiter, series: car.series, log: car.logs.log}
	car.makeHandler(c, policy)
	if car.connections, err = newConnections(car.started, c, car.logs.log); err != nil {
		return nil, err
	}
	car.handler.BoundHeads(car.connections.heads)
	car.encryption, car.connStats = newEncryption(car.logs.log), newConnStats(c, car.logs.log)
	car.makeServer(c)
	return car, nil
}

// makeHandler makes what decides on requests, and what looks into it.
func (s *sidecar) makeHandler(c *config.Config, policy *proxy.Policy) {
	s.accessLog = telemetry.NewAccessLog(s.logs.access, s.statistics.words)
	s.accessLog.SetCombined(s.logs.lines(c.Log.Format))
	s.handler = proxy.NewHandler(s.limiter, policy, append(s.statistics.recorders(), s.accessLog))
	s.inspector = &inspect.Inspector{
		Requests: s.handler, Ledger: s.limiter, Guess: s.handler.Guess(),
		Pinned: &s.policies.pins, Recent: s.statistics.book.Recent, Log: s.logs.log,
	}
	s.handler.TellWorkers(func(n int, by string) {
		s.logs.log.Info("the backend has another number of workers (0: any)", zap.Int("workers", n), zap.String("by", by))
	})
}

// makeServer makes what reads requests from connections.
func (s *sidecar) makeServer(c *config.Config) {
	var challenges func(http.ResponseWriter, *http.Request) bool
	if len(c.TLS.ACME.Hosts) > 0 {
		challenges = s.encryption.challenge
	}
	s.server = proxy.NewServer(s.handler, proxy.ServerOptions{
		Header: header, Idle: c.Timeouts.Idle, Linger: linger, Log: s.logs.log,
		Table: s.connections.table, Peer: s.peer, Malformed: s.statistics.counts.Malformed,
		Stepped:    s.connStats.note,
		Challenges: challenges,
	})
}

// header is how long the header of a request may take, from its first byte to its end: some KB
// pass any line in less, and a client that sends slower holds a connection for nothing.
const header = 10 * time.Second

// linger is for how long connections that are open are served as the program ends:
// longer than from one request of a page to the next.
const linger = 250 * time.Millisecond

// lingerReplaced is linger if another process already serves, so no client waits for the end:
// it leaves connections time to become idle.
const lingerReplaced = 2 * time.Second

// serve runs the sidecar until the context ends and what is under way has
// finished. If a process hands over to it, it takes that one's place; replaced tells whether
// another process has taken this one's in the end.
func serve(ctx context.Context, c *config.Config, s source, in handover.Inherited, f *fdStore, stderr io.Writer) (replaced bool, err error) {
	defer func() {
		if err != nil && !replaced {
			in.Close()
			f.giveUp()
		}
	}()
	signals := hear()
	defer signal.Stop(signals)
	car, err := newSidecar(c, s, stderr)
	if err != nil {
		return false, err
	}
	defer car.logs.output.Close()
	car.inherited, car.fdStore = in, f
	sockets, err := car.open(ctx)
	if err != nil {
		return false, err
	}
	err = car.run(ctx, sockets, signals)
	return car.succession.gone(), err
}

// hear is the signals that are obeyed. It is called before anything can take long: unheard, they
// would end the program.
func hear() chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR2)
	return signals
}

// run serves the sockets. With a predecessor it does so next to it at first.
func (s *sidecar) run(ctx context.Context, sockets []handover.Socket, signals <-chan os.Signal) error {
	work, stop := context.WithCancel(context.Background()) // outlives ctx by the drain
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	ctx, s.succession.leave = context.WithCancel(ctx)
	defer s.succession.leave()
	entrances, err := s.prepare(sockets)
	if err != nil {
		handover.Close(sockets)
		return err
	}
	s.succession.sockets = sockets
	s.start(work, &all)
	defer s.endHints()
	failed := make(chan error, 1)
	all.Go(func() { failed <- s.server.Serve(entrances) })
	if err := s.takeOver(sockets); err != nil {
		return errors.Join(err, s.drain())
	}
	s.beginTasks(ctx.Err) // not ready while draining
	defer func() {
		s.takeIn(time.Now()) // so the history is saved with them
		s.tasks.end()
	}()
	s.announce()
	all.Go(func() { s.watch(work) })
	return s.untilTheEnd(ctx, signals, failed)
}

// prepare makes entrances of the sockets, and has the sidecar remember what the predecessor
// does, or what was saved.
func (s *sidecar) prepare(sockets []handover.Socket) ([]proxy.Entrance, error) {
	err := s.encryption.begin(s.config, sockets)
	entrances, e := s.entrances(sockets, s.config)
	if err = errors.Join(err, e, s.source.refuseCircle(context.Background(), s.config, servedAt(sockets))); err != nil {
		return nil, err
	}
	s.sharing.Trust(time.Now(), sharing.Trusted{
		Known: s.limiter.Known(), Standing: s.policies.standing, Passes: s.policies.newcomer,
		Tickets: func(keys [][32]byte) { s.encryption.config.SetSessionTicketKeys(keys) }, Self: s.instance,
	})
	if s.inherited.From != nil {
		return entrances, s.remember()
	}
	s.state.complain()
	s.state.load()
	if s.history != nil {
		s.history.load()
	}
	return entrances, nil
}

// start starts what goes on next to the requests until the context ends.
func (s *sidecar) start(ctx context.Context, all *sync.WaitGroup) {
	all.Go(func() { s.handler.Drive(ctx) })
	all.Go(func() { s.runInside(ctx) })
	all.Go(func() { s.policies.databases.Run(ctx) })
	all.Go(func() { s.policies.proofs.Run(ctx) })
	s.openHints()
	if use := s.openUsage(s.backend); use != nil {
		all.Go(func() { use.Run(ctx, s.handler.Measure) })
	}
	all.Go(func() { s.backend.Run(ctx, learner{s.limiter, s.handler}) })
	all.Go(func() { s.encryption.run(ctx) })
}

// untilTheEnd heeds signals until the context ends and what is under way has finished.
func (s *sidecar) untilTheEnd(ctx context.Context, signals <-chan os.Signal, failed <-chan error) error {
	for {
		select {
		case sig := <-signals:
			s.obey(ctx, sig)
		case err := <-failed:
			if err != nil {
				s.succession.leave()
				s.succession.started.Wait()
				return err
			}
			failed = nil // another process serves
		case <-ctx.Done():
			s.succession.started.Wait() // it gives up, or this process was replaced
			if interrupted(ctx) {
				s.fdStore.giveUp()
			}
			return s.drain()
		}
	}
}

// interrupted reports whether SIGINT ended a context of signal.NotifyContext. SIGTERM may be a
// restart, over which the service manager keeps the sockets; SIGINT gives the ports to another
// program while requests finish.
func interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && strings.HasPrefix(cause.Error(), os.Interrupt.String())
}

func (s *sidecar) obey(ctx context.Context, sig os.Signal) {
	if sig == syscall.SIGUSR2 {
		s.succeed(ctx)
		return
	}
	s.succession.reloads.Store(true)
	_ = s.reload() // it has logged what is wrong
}

func (s *sidecar) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []string
	for _, l := range s.succession.sockets {
		at = append(at, l.Addr().String())
	}
	s.fdStore.update(s.succession.sockets, s.logs.log) // before a restart can be asked for
	s.logs.log.Info("serving", zap.String("version", version), zap.Strings("listen", at),
		zap.String("backend", s.config.Backend.URL), zap.String("mode", s.config.Throttle.Mode),
		zap.Float64("cpus", policy.CPUs(s.config)), zap.String("file", s.source.file),
		zap.Int("pid", os.Getpid()))
	s.warn(s.config)
	if s.inherited.From != nil { // so systemd treats this process as the service
		daemon.Notify(s.logs.log, daemon.Ready+"\n"+daemon.MainPID(os.Getpid()))
		return
	}
	daemon.Notify(s.logs.log, daemon.Ready)
}

// drain lets what is under way finish, the held requests included.
func (s *sidecar) drain() error {
	s.mu.Lock()
	limit := s.config.Timeouts.Drain
	s.mu.Unlock()
	if !s.succession.gone() { // else another process is the service now
		daemon.Notify(s.logs.log, daemon.Stopping)
	}
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

// pingsInTime is how many pings fit into the time after which systemd ends a program that sends
// none, so a single late one does no harm.
const pingsInTime = 3

// watch tells systemd's watchdog that requests are served, until the context ends or
// another process serves. Without a watchdog (WatchdogSec= of the unit) it does nothing.
func (s *sidecar) watch(ctx context.Context) {
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.logs.log.Warn("no watchdog", zap.Error(err))
		return
	}
	if limit <= 0 {
		return
	}
	w := watchdog{passes: s.handler.Passes, serves: s.accepts, log: s.logs.log, ping: func() { daemon.Notify(s.logs.log, daemon.Watchdog) }}
	w.run(ctx, limit/pingsInTime)
}

// accepts looks whether a connection could be accepted, which needs the lock of the table
// of connections, and whether this process is the one that accepts them.
func (s *sidecar) accepts() bool {
	s.connections.table.Stats(0)
	return !s.succession.gone()
}

// watchdog pings only while the request path answers: the driver, which needs the locks
// that each request needs, has made a pass since the last ping. That the backend answers
// does not matter: another start of the proxy would not help it.
type watchdog struct {
	passes func() int64
	serves func() bool // may block for as long as the request path does; false: for good
	ping   func()
	log    *zap.Logger
}

func (w *watchdog) run(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for last := int64(-1); ; {
		if !w.serves() {
			return
		}
		if passed := w.passes(); passed != last {
			last = passed
			w.ping()
		} else {
			w.log.Error("the request path does not answer: systemd's watchdog may end the process")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
