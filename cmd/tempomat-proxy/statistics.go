package main

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/admin"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/inspect"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/book"
	"tempomat/proxy/telemetry/metrics"
)

const (
	// drainEvery is how often requests that are over are added up.
	drainEvery = 250 * time.Millisecond
	// drainsPerPoint makes a point each second.
	drainsPerPoint = int(time.Second / drainEvery)
)

// statistics are what requests add up to, for those who look inside.
type statistics struct {
	feed      *telemetry.Feed
	book      *book.Book
	counts    *telemetry.Counts
	words     *telemetry.Words
	durations *metrics.Durations // nil: they aren't exported
}

func newStatistics(began time.Time, c *config.Config) *statistics {
	b := book.New(began)
	counts := telemetry.NewCounts()
	i := &statistics{feed: telemetry.NewFeed(counts), counts: counts, words: telemetry.NewWords(), book: b}
	if c.Metrics != "" {
		i.durations = metrics.NewDurations()
	}
	i.setNames(c)
	return i
}

// recorders take in each request that has ended.
func (i *statistics) recorders() telemetry.Recorders {
	all := telemetry.Recorders{i.feed}
	if i.durations != nil {
		all = append(all, i.durations)
	}
	return all
}

// setNames tells which classes and request limits are counted by name.
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

// takeIn adds up the requests that were over until now.
func (s *sidecar) takeIn(now time.Time) {
	sinks := []telemetry.Sink{s.statistics.words, s.statistics.book}
	if s.history != nil {
		sinks = append(sinks, s.history)
	}
	s.statistics.feed.Drain(now, sinks...)
}

// runInside adds up until the context ends.
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
			clear(running) // or the strings would stay alive
			if n%drainsPerPoint == 0 {
				s.costs.Note(now, s.handler.Policy().Meter.Sums())
				i.book.Tick(now, s.moment(now))
			}
		}
	}
}

func (s *sidecar) moment(now time.Time) book.Moment {
	return book.Moment{Waiting: s.handler.WaitingByGroup(now), Gate: s.limiter.GateState(), CPUs: policy.CPUs(s.loaded.inForce())}
}

// mostPlaces is how many pages are told that requests at the backend are for.
const mostPlaces = 5

// overview is which clients use the server at this moment.
func (s *sidecar) overview() api.OverviewReply {
	now, c := time.Now(), s.loaded.inForce()
	m := s.moment(now)
	m.Places = s.handler.AtBackend(mostPlaces)
	reply := s.statistics.book.Overview(m)
	reply.Estimated = s.estimated(now)
	reply.Release, reply.Mode = version, c.Throttle.Mode
	reply.Uptime = now.Sub(s.started).Seconds()
	reply.Conditions = append([]api.Condition{}, s.conditionsOf(now, &reply)...)
	return reply
}

// estimated is what part of the last minute's costs is estimated from time.
func (s *sidecar) estimated(now time.Time) float64 {
	c, _ := s.costs.Lately(now, s.handler.Policy().Meter.Sums())
	if all := c.Process + c.Database + c.Told + c.Estimated; all > 0 {
		return float64(c.Estimated) / float64(all)
	}
	return 0
}

// conditions are what is wrong at this moment.
func (s *sidecar) conditions() []api.Condition { return s.overview().Conditions }

func (s *sidecar) conditionsOf(now time.Time, o *api.OverviewReply) []api.Condition {
	c, connections, sharing, numbers := s.loaded.inForce(), s.connections.table.Stats(0), s.sharing.Reply(), s.sharing.Numbers()
	h := &inspect.Health{
		Overview: o, Backend: c.Backend.URL, Certificates: s.encryption.status(), Connections: connections.Open, MostOpen: connections.Most,
		Trouble: sharing.Trouble, Up: numbers.Up, OtherSecret: numbers.OtherSecret, Drift: s.sharing.Drift(), Rejected: s.loaded.rejects(),
	}
	h.LostLines, h.WhyLost = s.logs.output.Losing(now)
	return inspect.Conditions(now, h)
}

// mostRecent is how many verdicts are looked through for those that are alike.
const mostRecent = 10_000

// shown is what the admin API shows of it.
func (s *sidecar) shown() admin.Inside {
	b := s.statistics.book
	recent := func(limit int, each bool) api.RecentReply {
		if each {
			return b.Recent(limit)
		}
		all := b.Recent(mostRecent)
		all.Rows = inspect.Grouped(all.Rows, limit)
		return all
	}
	return admin.Inside{Overview: s.overview, Shapes: b.Shapes, Recent: recent, Series: b.Series}
}

// series is what Graphite gets.
func (s *sidecar) series() map[string]float64 { return metrics.Series(s.numbers()) }

// numbers is all metrics at this moment. It does not take s.mu: a reload, which has it, waits
// for those that ask.
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
	s.loaded.tell(n)
	return n
}

// reports sends statistics out: to Graphite, and into the log.
type reports struct {
	ledger *limiter.Limiter
	series func() map[string]float64
	log    *zap.Logger

	end     context.CancelFunc // nil: nothing runs
	ended   bool               // for good
	running sync.WaitGroup
}

// restart begins to report as the configuration says, and ends what it said
// before.
func (r *reports) restart(c *config.Config) {
	if r.ended {
		return
	}
	r.stop()
	ctx, end := context.WithCancel(context.Background())
	r.end = end
	r.running.Go(func() {
		metrics.NewStatLog(r.ledger, c.Log.DelayThreshold, time.Now, r.log).Run(ctx)
	})
	if c.Graphite.Address == "" {
		return
	}
	hostname, err := os.Hostname()
	if err != nil {
		r.log.Warn("the host has no name", zap.Error(err))
		hostname = "localhost"
	}
	r.running.Go(func() {
		metrics.NewGraphite(metrics.GraphiteOptions{
			Address: c.Graphite.Address, Prefix: c.Graphite.Prefix, Hostname: hostname,
			Interval: c.Graphite.Interval, Threshold: c.Log.DelayThreshold,
			Ledger: r.ledger, Totals: r.series, Now: time.Now, Log: r.log,
		}).Run(ctx)
	})
}

// stop ends the reports and waits until they have ended.
func (r *reports) stop() {
	if r.end != nil {
		r.end()
		r.running.Wait()
	}
}

// logs is where the program writes what it has to say.
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

// lines is where requests are logged as lines of text; nil: they are logged as all else is.
func (l *logs) lines(format string) io.Writer {
	if format != "combined" {
		return nil
	}
	return daemon.Later{Output: l.output}
}
