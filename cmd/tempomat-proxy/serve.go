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
	"sync/atomic"
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
	"tempomat/proxy/telemetry/book"
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
	history     *book.History // nil: none is kept
	inspector   *inspect.Inspector
	handler     *proxy.Handler
	server      *proxy.Server
	connections *connections
	encryption  *encryption
	connStats   *connStats
	access      admin.Access // over TCP
	loaded      atomic.Pointer[loaded]
	tasks       singletonTasks
	fdStore     *fdStore
	inherited   handover.Inherited
	unserved    []handover.Socket // inherited, but not in the configuration
	succession  succession

	mu     sync.Mutex // guards the fields below, so only one reload runs at a time
	config *config.Config
	begun  *config.Config // the configuration at the start, whose values stay in use for keys that need a restart
}

// newSidecar makes all parts of the program. It opens no sockets.
func newSidecar(c *config.Config, s source, stderr io.Writer) (*sidecar, error) {
	car := &sidecar{source: s, started: time.Now(), logs: newLogs(stderr), config: c, begun: c}
	daemon.SetLevel(car.logs.level, c.Log.Level)
	car.loaded.Store(&loaded{Config: c})
	car.statistics = newStatistics(car.started, c)
	var err error
	if car.sharing, err = sharing.New(c, car.logs.log); err != nil {
		return nil, err
	}
	car.limiter = limiter.New(car.started, policy.Limits(c), c.Table.Size, car.sharing.Sharer())
	counts, err := newRequestCounts(c, car.statistics.counts)
	if err != nil {
		return nil, err
	}
	car.policies.begin(counts, car.logs.log)
	policy, err := car.policies.make(c, func(*config.Config) error { return nil }) // prepare reads the certificates
	if err != nil {
		return nil, err
	}
	car.state = &stateFile{path: c.State, log: car.logs.log, parts: map[string]memory{
		"known": car.limiter.Known(), "standing": car.policies.standing, "newcomers": car.policies.newcomer,
		"pins": &car.policies.pins, "robots": car.policies.proofs,
	}}
	if c.History.Hours > 0 {
		car.history = book.NewHistory(c.History.Hours, car.statistics.words)
		car.state.parts["history"] = car.history
	}
	car.makeHandler(policy)
	if car.connections, err = newConnections(car.started, c, car.logs.log); err != nil {
		return nil, err
	}
	car.handler.BoundHeads(car.connections.heads)
	car.encryption, car.connStats = newEncryption(car.logs.log), newConnStats(c, car.logs.log)
	car.makeServer(c)
	return car, nil
}

// makeHandler makes the handler of requests, and the inspector that shows the handler's state in the admin
// API.
func (s *sidecar) makeHandler(policy *proxy.Policy) {
	s.accessLog = telemetry.NewAccessLog(s.logs.access, s.statistics.words)
	s.handler = proxy.NewHandler(s.limiter, policy, append(s.statistics.recorders(), s.accessLog))
	s.inspector = &inspect.Inspector{
		Requests: s.handler, Ledger: s.limiter, Guess: s.handler.Guess(),
		Pinned: &s.policies.pins, Recent: s.statistics.book.Recent, Log: s.logs.log,
	}
	s.handler.TellWorkers(func(n int, by string) {
		s.logs.log.Info("the backend's number of workers changed (0: unknown)", zap.Int("workers", n), zap.String("by", by))
	})
}

// makeServer makes the server that reads requests from connections.
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

// header is the longest time that a client may take to send a request's headers, from the first byte. Even the
// slowest connections transfer a few KB in that time.
const header = 10 * time.Second

// linger is how long open connections are still served when the program ends. It is longer than the pause
// between two requests of a page.
const linger = 250 * time.Millisecond

// lingerReplaced is used instead of linger if another process already serves. No client then waits for the
// end of this process, so connections get more time to become idle.
const lingerReplaced = 2 * time.Second

// serve runs the sidecar until the context ends and its requests have finished. If a running process has started this
// one, this one replaces it. replaced reports whether yet another process has then replaced this one.
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

// hear subscribes to the signals that the sidecar handles. Call it first, because these signals end the program until
// then.
func hear() chan os.Signal {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGUSR2)
	return signals
}

// run serves the sockets. If there is a predecessor, both processes serve the sockets at first.
func (s *sidecar) run(ctx context.Context, sockets []handover.Socket, signals <-chan os.Signal) error {
	work, stop := context.WithCancel(context.Background()) // lasts longer than ctx, until the drain has ended
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
	s.beginTasks(ctx.Err) // reports not ready while draining
	defer func() {
		s.takeIn(time.Now()) // adds the last requests to the history before it is saved
		s.tasks.end()
	}()
	s.announce()
	all.Go(func() { s.watch(work) })
	return s.untilTheEnd(ctx, signals, failed)
}

// prepare makes an entrance for each socket, and loads the state file.
func (s *sidecar) prepare(sockets []handover.Socket) ([]proxy.Entrance, error) {
	err := s.encryption.begin(s.config, sockets)
	entrances, e := s.entrances(sockets, s.config)
	if err = errors.Join(err, e, refuseCircle(s.config, sockets)); err != nil {
		return nil, err
	}
	s.sharing.Trust(time.Now(), sharing.Trusted{
		Known: s.limiter.Known(), Standing: s.policies.standing, Passes: s.policies.newcomer,
		Tickets: func(keys [][32]byte) { s.encryption.config.SetSessionTicketKeys(keys) }, Self: s.instance,
	})
	s.state.complain()
	s.state.load()
	return entrances, nil
}

// start starts the goroutines that run in addition to the requests until the context ends.
func (s *sidecar) start(ctx context.Context, all *sync.WaitGroup) {
	all.Go(func() { s.handler.Drive(ctx) })
	all.Go(func() { s.runInside(ctx) })
	all.Go(func() { s.policies.proofs.Run(ctx) })
	s.openHints()
	if use := s.openUsage(s.backend); use != nil {
		all.Go(func() { use.Run(ctx, s.handler.Measure) })
	}
	all.Go(func() { s.backend.Run(ctx, learner{s.limiter, s.handler}) })
	all.Go(func() { s.encryption.run(ctx) })
}

// untilTheEnd handles signals until the context ends, and then drains.
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
			failed = nil // another process serves now, so the error doesn't matter
		case <-ctx.Done():
			s.succession.started.Wait() // waits until a successor that doesn't serve yet has given up
			if interrupted(ctx) {
				s.fdStore.giveUp()
			}
			return s.drain()
		}
	}
}

// interrupted reports whether SIGINT ended a context of signal.NotifyContext. After SIGTERM, which may be
// part of a restart, the service manager keeps the sockets. After SIGINT it closes them, so another program
// can use the ports while requests finish.
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
	_ = s.reload() // reload has logged the error
}

func (s *sidecar) announce() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at []string
	for _, l := range s.succession.sockets {
		at = append(at, l.Addr().String())
	}
	s.fdStore.update(s.succession.sockets, s.logs.log) // first, because systemd may restart this process once it is ready
	s.logs.log.Info("serving", zap.String("version", version), zap.Strings("listen", at),
		zap.String("backend", s.config.Backend.URL), zap.String("mode", s.config.Throttle.Mode),
		zap.Float64("cpus", policy.CPUs(s.config)), zap.String("file", s.source.file),
		zap.Int("pid", os.Getpid()))
	s.warn(s.config)
	if s.inherited.From != nil { // makes systemd treat this process as the service
		daemon.Notify(s.logs.log, daemon.Ready+"\n"+daemon.MainPID(os.Getpid()))
		return
	}
	daemon.Notify(s.logs.log, daemon.Ready)
}

// drain waits until all requests have finished, including those in the queue, but at most for timeouts.drain.
func (s *sidecar) drain() error {
	s.mu.Lock()
	limit := s.config.Timeouts.Drain
	s.mu.Unlock()
	if !s.succession.gone() { // otherwise another process represents the service now
		daemon.Notify(s.logs.log, daemon.Stopping)
	}
	s.logs.log.Info("draining", zap.Duration("limit", limit), zap.Int("held", s.limiter.Held()))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := s.server.Drain(ctx); err != nil {
		s.logs.log.Warn("aborted requests that did not finish in time", zap.Error(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policies.upstream.Close()
	s.policies.counts.close()
	s.logs.log.Info("ended")
	return nil
}

// pingsInTime is the number of pings in the time after which systemd ends an unresponsive program. A single late ping
// therefore does no harm.
const pingsInTime = 3

// watch pings systemd's watchdog until the context ends or another process serves. Without
// WatchdogSec= in the unit it does nothing.
func (s *sidecar) watch(ctx context.Context) {
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.logs.log.Warn("can't use systemd's watchdog; systemd won't notice if the proxy hangs", zap.Error(err))
		return
	}
	if limit <= 0 {
		return
	}
	w := watchdog{passes: s.handler.Passes, serves: s.accepts, log: s.logs.log, ping: func() { daemon.Notify(s.logs.log, daemon.Watchdog) }}
	w.run(ctx, limit/pingsInTime)
}

// accepts waits for the lock on the table of connections, which each new connection needs. It reports
// whether this process still serves.
func (s *sidecar) accepts() bool {
	s.connections.table.Stats(0)
	return !s.succession.gone()
}

// watchdog pings only while requests can be served: the driver, which takes the same locks as each request, must have
// completed a pass since the last ping. If the backend doesn't answer, pings continue, because a restart of the proxy
// wouldn't help.
type watchdog struct {
	passes func() int64
	serves func() bool // blocks if the request path blocks; returns false after another process has taken over
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
			w.log.Error("requests are stuck in the proxy; systemd's watchdog may restart it")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
