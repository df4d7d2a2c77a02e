package main

import (
	"context"
	"errors"
	"fmt"
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

// watchWorkers starts watching the backend's workers, if the backend is on this machine and the queue needs
// their number.
func (s *sidecar) watchWorkers(c *config.Config) {
	if c.Backend.IsLocal() && c.Throttle.HasGate() {
		s.backend.Watch(c.Backend.Parsed())
		return
	}
	s.backend.Watch(nil)
}

// learner passes observations of the backend to the handler and the limiter.
type learner struct {
	*limiter.Limiter
	handler *proxy.Handler
}

// Backlog implements host.Learner.
func (l learner) Backlog(now time.Time, queued, processes, full int) {
	l.handler.Crowd(queued > 0)
	l.Limiter.Backlog(now, queued, processes, full)
}

// endHints restores the priorities of the backend's processes and ends all measurements. Later reloads don't start
// the measurements again.
func (s *sidecar) endHints() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.priorities.end()
	s.bills.end()
}

// openHints starts to watch the backend's workers, to measure their CPU time, and to change their priorities.
func (s *sidecar) openHints() {
	backend, err := host.OpenBackend()
	if err != nil {
		s.logs.log.Warn("can't read the length of the backend's accept queue", zap.Error(err))
	}
	s.backend = backend
	s.watchWorkers(s.config)
	s.bills.handler, s.bills.log = s.handler, s.logs.log
	s.bills.restart(s.config)
	s.priorities.handler, s.priorities.log = s.handler, s.logs.log
	s.priorities.restart(s.config)
	s.costs.Note(time.Now(), s.handler.Policy().Meter) // otherwise the first costs would be missed
}

// openUsage opens the meter of CPU use, which measures the backend's own use separately. It returns nil if
// CPU use isn't measured.
func (s *sidecar) openUsage(backend *host.Backend) *host.UsageMeter {
	c := s.config
	if !policy.MeasuresUse(c) {
		if c.Gate.Heavy == 0 && c.CPUCount == 0 {
			s.logs.log.Warn("the backend's CPU use isn't measured, so tempomat assumes that the backend has as many CPUs as this machine. Set cpuCount to its number of CPUs",
				zap.String("backend", c.Backend.URL), zap.Int("cpus", policy.Room(c)))
		}
		return nil
	}
	cgroup := c.Gate.Usage
	if cgroup == "machine" {
		cgroup = ""
	}
	use, err := host.OpenUsage(cgroup, policy.CPUs(c), backend)
	if err != nil {
		s.logs.log.Warn("can't measure the CPU use, so the number of requests that compute at once doesn't adapt to it", zap.Error(err))
		return nil
	}
	use.Lost = func(err error) {
		s.logs.log.Warn("can no longer measure the CPU use, so the number of requests that compute at once stays as it is", zap.Error(err))
	}
	use.Steps = s.handler.Steps
	return use
}

// kernel reports which features of the kernel are used, and which are missing.
func (s *sidecar) kernel() api.Kernel {
	costs, of := s.costs.Growth(time.Now(), s.handler.Policy().Meter)
	return kernelReply(costs, of, s.priorities.numbers(), s.bills.lacks(), s.priorities.lacks())
}

// kernelReply reports the costs of requests that ended recently, how priorities were changed, and the features that
// are missing. bill is the reason why costs aren't measured, and steps the reason why priorities aren't changed. If
// costs aren't measured, priorities can't be changed either.
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
	if n.Process > 0 { // workers report their costs, even if this process can't find them
		bill = nil
	}
	if bill != nil {
		k.Missing = append(k.Missing, missing(lackedFor(bill, n.Told), bill))
	}
	if steps != nil && !errors.Is(steps, bill) && !errors.Is(steps, errNotWanted) {
		k.Missing = append(k.Missing, missing("priority", steps))
	}
	k.Steps = p.On && steps == nil && bill == nil
	return k
}

// lackedFor returns the feature that doesn't work. If the backend itself reports costs (cost.source: header), only
// priorities don't work, because these require that the process that serves a request is known.
func lackedFor(bill error, told uint64) string {
	if told > 0 && errors.Is(bill, errNotMeasured) {
		return "priority"
	}
	return "costs"
}

func missing(what string, err error) api.MissingRow {
	return api.MissingRow{For: what, What: err.Error(), Remedy: remedy(err)}
}

// remedy returns what the administrator should do, and where the manual describes it. The result is empty if there
// is no remedy.
func remedy(err error) string {
	switch {
	case errors.Is(err, errNotMeasured):
		return "set cost.source: auto (docs/exact-costs.md)"
	case errors.Is(err, errElsewhere):
		return "run the proxy on the backend's machine, and name the backend as localhost or 127.0.0.1; if the backend must stay on another machine, costs can only be estimated (docs/exact-costs.md)"
	case errors.Is(err, errDeaf):
		return "set cost.socket to a path in an existing directory to which the proxy may write, such as unix:/run/tempomat/worker.sock, and reload (docs/exact-costs.md)"
	case errors.Is(err, errUntold):
		return "let the workers load their file, set TEMPOMAT_SOCKET if the path is not /run/tempomat/worker.sock, and give their user access to the socket's directory; or grant both capabilities (docs/exact-costs.md, Check that it works)"
	case errors.Is(err, host.ErrRight):
		return "let the workers report (cost.socket), which needs no privilege, or grant both capabilities: the drop-in exact-bill.conf of systemd, --cap-add in Docker, kernelHelp of the Helm chart (docs/exact-costs.md, Rights)"
	case errors.Is(err, host.ErrElsewhere), errors.Is(err, host.ErrHidden):
		return "put the proxy and the backend into the same PID namespace and network: --pid and --network in Docker, kernelHelp of the Helm chart (docs/exact-costs.md, Rights)"
	case host.IsForbidden(err):
		return "grant CAP_SYS_NICE: the drop-in priority.conf of systemd, --cap-add SYS_NICE in Docker, kernelHelp of the Helm chart (docs/exact-costs.md, Rights)"
	default:
		return ""
	}
}

// bills measures the CPU time of the backend's workers.
type bills struct {
	handler *proxy.Handler
	log     *zap.Logger

	key  billKey // settings of the current measurement
	stop context.CancelFunc
	runs sync.WaitGroup

	mu         sync.Mutex // guards the fields below; restart, which alone sets unreported, reads it without mu
	missing    error      // why workers aren't measured; nil if they are, or if that isn't known yet
	unreported error      // why cost.socket can't be used, or errUntold, even after a worker has reported; nil: no socket is configured
}

// Reasons why the CPU time of workers isn't measured. Package host has more.
var (
	errNotMeasured = errors.New("cost.source is not auto or process")
	errElsewhere   = errors.New("the backend is on another machine")
	errDeaf        = errors.New("workers can't report through cost.socket")
	errUntold      = errors.New("no worker reports through cost.socket")
)

// lacks returns why workers aren't measured, or nil if no reason is known. If cost.socket is set, the error begins
// with the problem of the socket.
func (b *bills) lacks() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.missing == nil || b.unreported == nil {
		return b.missing
	}
	return fmt.Errorf("%w, and tempomat can't measure workers without reports: %w", b.unreported, b.missing)
}

func (b *bills) miss(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = err
}

// billKey contains the settings that start a new measurement if a reload changes them.
type billKey struct {
	backend string
	cost    config.Cost
}

// restart starts, changes or stops the measurement according to the configuration. Only one goroutine at a
// time may call restart and end.
func (b *bills) restart(c *config.Config) {
	key := billKey{c.Backend.URL, c.Cost}
	if key == b.key && !errors.Is(b.unreported, errDeaf) { // the socket's directory may have been created since
		return
	}
	b.end()
	b.key = key
	b.mu.Lock()
	b.missing, b.unreported = errNotMeasured, nil
	b.mu.Unlock()
	if policy.Meter(c.Cost.Source, 1).Measures() {
		b.begin(c)
	}
}

func (b *bills) begin(c *config.Config) {
	say := b.log.Info
	if c.Cost.Source == "process" {
		say = b.log.Warn
	}
	if !c.Backend.IsLocal() {
		b.miss(errElsewhere)
		if c.Cost.Source == "process" || c.Cost.Socket != "" {
			say("the CPU time of the backend's workers can't be measured, because they are on another machine", zap.String("backend", c.Backend.URL))
		}
		return
	}
	finder, err := host.OpenFinder(c.Backend.Parsed())
	if b.miss(err); err != nil {
		say("can't look for the backend's workers; the cost of requests is estimated", zap.Error(err))
	}
	costSocket := b.listen(c.Cost.Socket)
	if finder == nil && costSocket == nil {
		return
	}
	tell := func(err error) {
		if b.miss(err); err != nil {
			say("tempomat isn't allowed to see which worker serves a request, so the request's cost is estimated, unless the worker reports", zap.Error(err))
			return
		}
		b.log.Info("the CPU time of requests is measured in the backend's workers")
	}
	t := host.NewTracker(finder, costSocket, tell)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.runs.Go(func() { b.handler.Bill(ctx, t) })
}

// listen opens the socket to which workers report, or returns nil if there is none.
func (b *bills) listen(address string) *host.CostSocket {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	costSocket, err := host.OpenCostSocket(path)
	if b.unreported = errUntold; err != nil {
		b.unreported = fmt.Errorf("%w: %w", errDeaf, err)
		b.log.Warn("workers can't report which request they serve", zap.Error(err))
	}
	return costSocket
}

// end stops measuring.
func (b *bills) end() {
	if b.stop != nil {
		b.stop()
		b.runs.Wait()
		b.stop = nil
	}
}

// priorities lowers the priority of the backend's processes while their requests compute for long.
type priorities struct {
	handler *proxy.Handler
	log     *zap.Logger

	mu      sync.Mutex // guards the fields below
	keeper  *host.Keeper
	counts  host.PriorityCounts // of earlier Keepers
	missing error               // why no priority is lowered; nil if priorities are lowered
}

// restart applies the configuration. If the configuration doesn't allow lower priorities, it restores the
// priorities of all processes.
func (p *priorities) restart(c *config.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.missing
	if p.missing = p.openLocked(c); p.missing == nil {
		p.handler.SetStepper(p.keeper, p.giveUp)
		return
	}
	p.closeLocked()
	if !errors.Is(p.missing, errNotWanted) && (before == nil || before.Error() != p.missing.Error()) {
		say := p.log.Info
		if c.Gate.Priority == "on" {
			say = p.log.Warn
		}
		say("process priorities aren't lowered; everything else works as usual", zap.Error(p.missing))
	}
}

// errNotWanted is the reason if the configuration prevents lower priorities. In that case, nothing is
// missing.
var errNotWanted = errors.New("gate.priority is off, or no request is delayed")

// openLocked opens a Keeper if one is needed and none is open.
func (p *priorities) openLocked(c *config.Config) (err error) {
	switch {
	case c.Gate.Priority == "off", !c.Throttle.GateActs():
		return errNotWanted
	case !c.Backend.IsLocal():
		return errElsewhere
	case !policy.Meter(c.Cost.Source, 1).Measures():
		return errNotMeasured
	case p.keeper != nil:
		return nil
	}
	if p.keeper, err = host.OpenKeeper(p.counts); err != nil {
		return err
	}
	p.log.Info("processes of long requests get a lower priority")
	return nil
}

// closeLocked restores all priorities and closes the Keeper.
func (p *priorities) closeLocked() {
	p.handler.SetStepper(nil, nil)
	if p.keeper == nil {
		return
	}
	p.keeper.Close()
	p.counts, p.keeper = p.keeper.Counts(), nil
}

// giveUp records that this process can't change priorities after all.
func (p *priorities) giveUp(err error) {
	p.log.Warn("process priorities are no longer lowered; everything else works as usual", zap.Error(err))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = err
}

// lacks returns why no priority is lowered, or nil if priorities are lowered.
func (p *priorities) lacks() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

// end restores all priorities, and lowers none afterwards.
func (p *priorities) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
}

// numbers returns how often priorities were changed.
func (p *priorities) numbers() metrics.Priorities {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keeper == nil {
		return metrics.Priorities{PriorityCounts: p.counts}
	}
	return metrics.Priorities{On: p.missing == nil, PriorityCounts: p.keeper.Counts()}
}
