package main

import (
	"context"
	"io"
	"os"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/inspect"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/book"
	"tempomat/proxy/telemetry/metrics"
)

const (
	// drainEvery is the time between two runs that add up finished requests.
	drainEvery = 250 * time.Millisecond
	// drainsPerPoint is the number of these runs in a second.
	drainsPerPoint = int(time.Second / drainEvery)
)

// statistics adds up requests for the admin API and the metrics.
type statistics struct {
	book      *book.Book
	counts    *telemetry.Counts
	words     *telemetry.Words
	durations *metrics.Durations // nil if there are no metrics for Prometheus
}

func newStatistics(began time.Time, c *config.Config) *statistics {
	b := book.New(began)
	counts := telemetry.NewCounts()
	i := &statistics{counts: counts, words: telemetry.NewWords(), book: b}
	if c.Metrics != "" {
		i.durations = metrics.NewDurations()
	}
	i.setNames(c)
	return i
}

// recorders returns the recorders that are called for each request that has ended.
func (i *statistics) recorders() telemetry.Recorders {
	all := telemetry.Recorders{i.counts}
	if i.durations != nil {
		all = append(all, i.durations)
	}
	return all
}

// setNames sets the classes and limits that are counted by name.
func (i *statistics) setNames(c *config.Config) {
	var classes, names []string
	for _, class := range policy.Limits(c).Classes {
		classes = append(classes, class.Name)
	}
	for _, l := range c.Limits {
		names = append(names, l.Name)
	}
	i.counts.SetNames(classes, names)
}

// takeIn adds up the requests that have ended since the last call.
func (s *sidecar) takeIn(now time.Time) {
	sinks := []telemetry.Sink{s.statistics.words, s.statistics.book}
	if s.history != nil {
		sinks = append(sinks, s.history)
	}
	s.statistics.counts.Drain(now, sinks...)
}

// runInside adds up finished and running requests until the context ends.
func (s *sidecar) runInside(ctx context.Context) {
	i := s.statistics
	ticks := time.NewTicker(drainEvery)
	defer ticks.Stop()
	var running []telemetry.Entry
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			s.takeIn(now)
			running = s.handler.SoFar(now, running[:0])
			i.book.Running(now, running)
			clear(running) // otherwise the requests' strings would stay in memory
			if n%drainsPerPoint == 0 {
				s.costs.Note(now, s.handler.Policy().Meter)
				i.book.Tick(now, s.moment(now))
			}
		}
	}
}

func (s *sidecar) moment(now time.Time) book.Moment {
	return book.Moment{Waiting: s.handler.WaitingByGroup(now), Gate: s.limiter.GateState(), CPUs: policy.CPUs(s.loaded.Load().Config)}
}

// mostPlaces is the most pages with requests at the backend that the overview lists.
const mostPlaces = 5

// overview shows which clients use the server now.
func (s *sidecar) overview() api.OverviewReply {
	now, c := time.Now(), s.loaded.Load()
	m := s.moment(now)
	m.Places = s.handler.AtBackend(mostPlaces)
	reply := s.statistics.book.Overview(m)
	reply.Estimated = s.estimated(now)
	reply.Release, reply.Mode = version, c.Throttle.Mode
	reply.Uptime = now.Sub(s.started).Seconds()
	reply.Conditions = append([]api.Condition{}, s.conditionsOf(now, &reply)...)
	return reply
}

// estimated returns the fraction of the last minute's costs that was estimated from response times, 0 to 1.
func (s *sidecar) estimated(now time.Time) float64 {
	c, _ := s.costs.Growth(now, s.handler.Policy().Meter)
	if all := c.Process + c.Database + c.Told + c.Estimated; all > 0 {
		return float64(c.Estimated) / float64(all)
	}
	return 0
}

// conditionsOf lists the current problems.
func (s *sidecar) conditionsOf(now time.Time, o *api.OverviewReply) []api.Condition {
	c, connections, sharing, numbers := s.loaded.Load(), s.connections.table.Stats(0), s.sharing.Reply(), s.sharing.Numbers()
	h := &inspect.Health{
		Overview: o, Backend: c.Backend.URL, Certificates: s.encryption.status(), Connections: connections.Open, MostOpen: connections.Most,
		Trouble: sharing.Trouble, Up: numbers.Up, OtherSecret: numbers.OtherSecret, Drift: s.sharing.Drift(), Rejected: c.faulty, Strict: s.policies.counts.trouble(),
	}
	h.LostLines, h.WhyLost = s.logs.output.Losing(now)
	return inspect.Conditions(now, h)
}

// mostRecent is the number of recent verdicts from which similar ones are grouped.
const mostRecent = 10_000

// shown returns the functions of the admin API that show the statistics.
func (s *sidecar) shown() admin.Inside {
	b := s.statistics.book
	recent := func(limit int) api.RecentReply {
		all := b.Recent(mostRecent)
		all.Rows = inspect.Grouped(all.Rows, limit)
		return all
	}
	return admin.Inside{Overview: s.overview, Shapes: b.Shapes, Recent: recent}
}

// numbers returns all current metrics. It doesn't lock s.mu, because a reload holds that lock while it waits
// for goroutines that call numbers.
func (s *sidecar) numbers() *metrics.State {
	n := &metrics.State{
		Release: version,
		Totals:  s.statistics.counts.Totals(), Redirects: s.policies.newcomer.Counts(),
		Costs: s.handler.Policy().Meter.Sums(),
		Gate:  s.limiter.GateState(), Held: s.limiter.Held(), Keys: s.limiter.Keys(),
		Buffer: s.policies.spools.Stats(), Connections: s.connections.table.Stats(0),
		Sharing: s.sharing.Numbers(), Strict: s.policies.counts.strict(), Waiting: s.handler.WaitingByGroup(time.Now()),
	}
	n.Priorities, n.Pressure = s.priorities.numbers(), s.handler.Pressure()
	n.ConnStats, n.Certificates = s.connStats.tell(), s.encryption.status()
	n.LostLines = s.logs.output.Lost()
	s.loaded.Load().tell(n)
	return n
}

// sendToGraphite sends the metrics to Graphite, if the configuration names one, until the context ends.
func (s *sidecar) sendToGraphite(ctx context.Context) {
	c := s.begun
	if c.Graphite.Address == "" {
		return
	}
	hostname, err := os.Hostname()
	if err != nil {
		s.logs.log.Warn("can't determine the host name for Graphite", zap.Error(err))
		hostname = "localhost"
	}
	metrics.NewGraphite(metrics.GraphiteOptions{
		Address: c.Graphite.Address, Prefix: c.Graphite.Prefix, Hostname: hostname,
		Interval: c.Graphite.Interval, Threshold: c.Log.DelayThreshold,
		Ledger: s.limiter, Totals: func() map[string]float64 { return metrics.Series(s.numbers()) }, Now: time.Now, Log: s.logs.log,
	}).Run(ctx)
}

// logs are the program's log, the access log, and the output that both use.
type logs struct {
	level  zap.AtomicLevel
	output *daemon.Output
	log    *zap.Logger
	access *zap.Logger
}

func newLogs(w io.Writer) *logs {
	l := &logs{level: zap.NewAtomicLevel(), output: daemon.NewOutput(w)}
	l.log = daemon.NewLog(l.output, l.level)
	l.access = daemon.NewLog(daemon.Later{Output: l.output}, zap.InfoLevel).Named("access")
	return l
}
