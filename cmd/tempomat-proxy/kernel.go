package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/host"
	"tempomat/proxy/telemetry/metrics"
)

// watchWorkers has the hints look at the backend if it runs on this machine and
// there is a gate that makes something of them.
func (s *sidecar) watchWorkers(c *config.Config) {
	u, err := url.Parse(c.Backend.URL)
	if err == nil && policy.IsLocal(c.Backend.URL) && c.Throttle.HasGate() {
		s.backend.Watch(u)
		return
	}
	s.backend.Watch(nil)
}

// learner passes on what is seen of the backend.
type learner struct {
	*limiter.Limiter
	handler *proxy.Handler
}

// Backlog implements host.Learner.
func (l learner) Backlog(now time.Time, queued, processes int) {
	l.handler.Crowd(queued > 0)
	l.Limiter.Backlog(now, queued, processes)
}

// endHints has the backend's processes be as they were, and measures no more, whatever is
// reloaded.
func (s *sidecar) endHints() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.priorities.end()
	s.bills.end()
}

// openHints opens what tells of the backend's workers, of their CPU time, and of
// their priority.
func (s *sidecar) openHints() {
	backend, err := host.OpenBackend()
	if err != nil {
		s.logs.log.Warn("the queue in front of the backend's workers is not seen", zap.Error(err))
	}
	s.backend = backend
	s.watchWorkers(s.config)
	s.bills.handler, s.bills.log = s.handler, s.logs.log
	s.bills.restart(s.config)
	s.priorities.handler, s.priorities.log = s.handler, s.logs.log
	s.priorities.restart(s.config)
	s.costs.Note(time.Now(), s.handler.Policy().Meter.Sums()) // so nothing at the start is missed
}

// openUsage opens the meter of CPU use, with the backend's own use separate; nil if there is none.
func (s *sidecar) openUsage(backend *host.Backend) *host.UsageMeter {
	c := s.config
	if !policy.MeasuresUse(c) {
		if c.Gate.Heavy == 0 {
			s.logs.log.Warn("the backend's CPU use is not measured: as many requests of a size at a time as CPUs; set gate.heavy if it has others",
				zap.String("backend", c.Backend.URL), zap.Int("heavy", policy.Room(c)))
		}
		return nil
	}
	cgroup := c.Gate.Usage
	if cgroup == "machine" {
		cgroup = ""
	}
	use, err := host.OpenUsage(cgroup, policy.CPUs(c), backend)
	if err != nil {
		s.logs.log.Warn("the number of requests that compute at a time follows nothing", zap.Error(err))
		return nil
	}
	use.Lost = func(err error) {
		s.logs.log.Warn("the number of requests that compute at a time stays as it is", zap.Error(err))
	}
	use.Steps = s.handler.Steps
	return use
}

// kernel is what the kernel helps with, and what is missing for it.
func (s *sidecar) kernel() api.Kernel {
	costs, of := s.costs.Lately(time.Now(), s.handler.Policy().Meter.Sums())
	return kernelReply(costs, of, s.priorities.numbers(), s.bills.lacks(), s.priorities.lacks())
}

// kernelReply reports what recently ended requests cost, how processes stepped down, and what is
// missing: for the bill, without which nothing steps down either, and for the steps.
func kernelReply(costs cpuaccount.Sums, of time.Duration, p metrics.Priorities, bill, steps error) api.Kernel {
	n := costs.Requests
	k := api.Kernel{
		Seconds: of.Seconds(),
		Costs: []api.CostRow{
			{Source: "process", CPU: costs.Process.Seconds(), Requests: n.Process},
			{Source: "database", CPU: costs.Database.Seconds()},
			{Source: "header", CPU: costs.Told.Seconds(), Requests: n.Told},
			{Source: "estimate", CPU: costs.Estimated.Seconds(), Requests: n.Estimated},
		},
		Lowered: p.Lowered, Stepped: []api.StepRow{}, Missing: []api.MissingRow{},
	}
	for i, n := range p.Steps {
		k.Stepped = append(k.Stepped, api.StepRow{Below: host.StepDown(i + 1), Steps: n})
	}
	if n.Process > 0 { // workers tell, where they are not found
		bill = nil
	}
	if bill != nil {
		k.Missing = append(k.Missing, missing(lackedFor(bill, n.Told), bill))
	}
	if steps != nil && !errors.Is(steps, bill) {
		k.Missing = append(k.Missing, missing("priority", steps))
	}
	k.Steps = p.On && len(k.Missing) == 0
	return k
}

// lackedFor is what the steps lack if the bill lacks it: with a backend that reports costs
// (cost.source: header) the bill lacks nothing, but tempomat doesn't look which process serves a
// request, which the steps need.
func lackedFor(bill error, told uint64) string {
	if told > 0 && errors.Is(bill, errNotMeasured) {
		return "priority"
	}
	return "costs"
}

func missing(what string, err error) api.MissingRow {
	return api.MissingRow{For: what, What: err.Error(), Remedy: remedy(err)}
}

// remedy is what to do, and where that is described; empty: nothing can be done.
func remedy(err error) string {
	switch {
	case errors.Is(err, errNotWanted):
		return "set gate.priority: auto (docs/exact-costs.md)"
	case errors.Is(err, errNobodySlowed):
		return "set throttle: {mode: fair} (docs/exact-costs.md)"
	case errors.Is(err, errNotMeasured):
		return "set cost.source: auto (docs/exact-costs.md)"
	case errors.Is(err, errElsewhere):
		return "run the proxy on the backend's machine, and name the backend as localhost or 127.0.0.1; otherwise nothing to do (docs/exact-costs.md)"
	case errors.Is(err, errDeaf):
		return "set cost.socket to a path in an existing directory that the proxy may write, such as unix:/run/tempomat/worker.sock, and reload (docs/exact-costs.md)"
	case errors.Is(err, errUntold):
		return "let the workers load their file, set TEMPOMAT_SOCKET if the path is not /run/tempomat/worker.sock, and let their user enter its directory; or grant both rights (docs/exact-costs.md, Check that it works)"
	case errors.Is(err, host.ErrRight):
		return "let the workers report (cost.socket), which needs no right, or grant both rights: the drop-in exact-bill.conf of systemd, --cap-add in Docker, kernelHelp of the Helm chart (docs/exact-costs.md, Rights)"
	case errors.Is(err, host.ErrElsewhere), errors.Is(err, host.ErrHidden):
		return "give proxy and backend one PID namespace and one network: --pid and --network in Docker, kernelHelp of the Helm chart (docs/exact-costs.md, Rights)"
	case host.IsForbidden(err):
		return "grant CAP_SYS_NICE: the drop-in priority.conf of systemd, --cap-add SYS_NICE in Docker, kernelHelp of the Helm chart (docs/exact-costs.md, Rights)"
	default:
		return ""
	}
}

// bills has the CPU time of the backend's workers measured.
type bills struct {
	handler *proxy.Handler
	log     *zap.Logger

	key  billKey // of what runs
	stop context.CancelFunc
	runs sync.WaitGroup

	mu         sync.Mutex // guards the following
	missing    error      // why workers are not measured; nil: they are, or it isn't known yet
	costSocket error      // why none can report: it isn't configured, or the socket can't be opened; nil: they can
}

// Why the CPU time of workers is not measured, in addition to what package host tells.
var (
	errNotMeasured = errors.New("cost.source is not auto or process")
	errElsewhere   = errors.New("the backend is on another machine")
	errDeaf        = errors.New("workers cannot report by cost.socket")
	errUntold      = errors.New("no worker reports by cost.socket")
	errNoSocket    = errors.New("there is no cost.socket")
)

// lacks is why workers are not measured; nil: they are, as far as is known. An administrator
// who has set cost.socket gets told what is wrong with it, not that there is such a key.
func (b *bills) lacks() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.missing == nil, errors.Is(b.costSocket, errNoSocket):
		return b.missing
	case b.costSocket != nil:
		return fmt.Errorf("%w: %w", errDeaf, b.costSocket)
	default:
		return fmt.Errorf("%w, and none is found: %w", errUntold, b.missing)
	}
}

func (b *bills) miss(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = err
}

// hear notes whether workers can tell.
func (b *bills) hear(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.costSocket = err
}

// isDeaf reports whether the socket could not be opened. Its directory may be there by the next reload.
func (b *bills) isDeaf() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.costSocket != nil && !errors.Is(b.costSocket, errNoSocket)
}

// billKey is what a reload has to change for it to begin again.
type billKey struct {
	backend string
	cost    config.Cost
}

// restart measures as the configuration has it, or not at all. One goroutine at a time
// calls it, and end.
func (b *bills) restart(c *config.Config) {
	key := billKey{c.Backend.URL, c.Cost}
	if key == b.key && !b.isDeaf() {
		return
	}
	b.end()
	b.key = key
	b.miss(errNotMeasured)
	b.hear(errNoSocket)
	if policy.Meter(c.Cost.Source, 1).Measures() {
		b.begin(c)
	}
}

func (b *bills) begin(c *config.Config) {
	warn := b.log.Info
	if c.Cost.Source == "process" {
		warn = b.log.Warn
	}
	if !policy.IsLocal(c.Backend.URL) {
		b.miss(errElsewhere)
		if c.Cost.Source == "process" || c.Cost.Socket != "" {
			warn("the CPU time of the backend's workers is not measured: it is on another machine", zap.String("backend", c.Backend.URL))
		}
		return
	}
	u, err := url.Parse(c.Backend.URL)
	var finder *host.Finder
	if err == nil {
		finder, err = host.OpenFinder(u)
	}
	if b.miss(err); err != nil {
		warn("can't look for the backend's workers; the cost of requests is estimated", zap.Error(err))
	}
	costSocket := b.listen(c.Cost.Socket)
	if finder == nil && costSocket == nil {
		return
	}
	tell := func(err error) {
		if b.miss(err); err != nil {
			warn("no right to see which worker serves a request; its cost is estimated, unless the worker reports", zap.Error(err))
			return
		}
		b.log.Info("the CPU time of requests is measured at the backend's workers")
	}
	t := host.NewTracker(finder, costSocket, b.database(c.Cost.Database), tell)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.runs.Go(func() { b.handler.Bill(ctx, t) })
}

// listen opens the socket that workers tell by; nil: there is none.
func (b *bills) listen(address string) *host.CostSocket {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return nil
	}
	costSocket, err := host.OpenCostSocket(path)
	if b.hear(err); err != nil {
		b.log.Warn("workers cannot report which request they serve", zap.Error(err))
		return nil
	}
	return costSocket
}

func (b *bills) database(source string) *host.Database {
	if source == "off" {
		return nil
	}
	d, err := host.OpenDatabase(strings.TrimPrefix(source, "auto"))
	if err != nil {
		b.log.Warn("the CPU time of databases is not charged", zap.Error(err))
		return nil
	}
	return d
}

// end measures no more.
func (b *bills) end() {
	if b.stop != nil {
		b.stop()
		b.runs.Wait()
		b.stop = nil
	}
}

// priorities has the backend's processes step down in priority as their requests compute.
type priorities struct {
	handler *proxy.Handler
	log     *zap.Logger

	mu      sync.Mutex // guards the following
	keeper  *host.Keeper
	failed  bool                // it was given up, until the next reload
	retired host.PriorityCounts // of Keepers before
	told    string              // what is missing, as last logged
	missing error               // why nothing steps down; nil: it does
}

// restart puts all back as it was, and has processes step down as the configuration has it,
// or not at all.
func (p *priorities) restart(c *config.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed, p.missing = false, nil
	if err := p.openLocked(c); err != nil {
		p.missing = err
		p.closeLocked()
		p.missLocked(c, err)
		return
	}
	p.told = ""
	p.handler.SetStepper(p.keeper, p.giveUp)
	p.keeper.Restore()
	before := p.keeper.Counts().Recovered
	p.keeper.MendAll(workersOf(c))
	if n := p.keeper.Counts().Recovered - before; n > 0 {
		p.log.Info("put back priorities of processes that were left behind", zap.Uint64("processes", n))
	}
}

// Why nothing is to step down, or cannot.
var (
	errNotWanted    = errors.New("gate.priority is off")
	errNobodySlowed = errors.New("no request is slowed: throttle.mode is not fair, or throttle.shadow is on")
)

// openLocked opens the Keeper if it is wanted and there is none.
func (p *priorities) openLocked(c *config.Config) (err error) {
	switch {
	case c.Gate.Priority == "off":
		return errNotWanted
	case !c.Throttle.GateActs():
		return errNobodySlowed
	case !policy.IsLocal(c.Backend.URL):
		return errElsewhere
	case !policy.Meter(c.Cost.Source, 1).Measures():
		return errNotMeasured
	case p.keeper != nil:
		return nil
	}
	if p.keeper, err = host.OpenKeeper(); err != nil {
		return err
	}
	p.log.Info("long requests' processes step down in priority")
	return nil
}

// closeLocked puts all back and ends it.
func (p *priorities) closeLocked() {
	p.handler.SetStepper(nil, nil)
	if p.keeper == nil {
		return
	}
	p.keeper.Close()
	p.retired, p.keeper = p.retired.Plus(p.keeper.Counts()), nil
}

// workersOf are the backend's workers as far as they are known before they serve a request.
func workersOf(c *config.Config) []int {
	u, err := url.Parse(c.Backend.URL)
	if err != nil || !policy.IsLocal(c.Backend.URL) {
		return nil
	}
	return host.Workers(u)
}

// missLocked logs once what is missing.
func (p *priorities) missLocked(c *config.Config, err error) {
	if errors.Is(err, errNotWanted) || errors.Is(err, errNobodySlowed) || p.told == err.Error() {
		return
	}
	p.told = err.Error()
	say := p.log.Info
	if c.Gate.Priority == "on" {
		say = p.log.Warn
	}
	say("no process steps down in priority; everything else is as usual", zap.Error(err))
}

// giveUp notes that priorities can't be changed after all.
func (p *priorities) giveUp(err error) {
	p.log.Warn("no process steps down in priority any more; everything else is as usual", zap.Error(err))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed, p.missing = true, err
}

// lacks is why nothing steps down; nil: it does.
func (p *priorities) lacks() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

// end puts all back. Nothing steps down afterwards.
func (p *priorities) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
}

// numbers is what was done.
func (p *priorities) numbers() metrics.Priorities {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := metrics.Priorities{On: p.keeper != nil && !p.failed, PriorityCounts: p.retired}
	if p.keeper != nil {
		n.PriorityCounts = n.Plus(p.keeper.Counts())
	}
	return n
}
