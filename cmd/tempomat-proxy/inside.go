package main

import (
	"context"
	"time"

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
	// drainEvery is how often requests that are over are added up.
	drainEvery = 250 * time.Millisecond
	// drainsPerPoint makes a point each second.
	drainsPerPoint = int(time.Second / drainEvery)
)

// inside is what requests add up to, for those who look inside.
type inside struct {
	feed      *telemetry.Feed
	book      *book.Book
	events    *admin.Events
	counts    *telemetry.Counts
	durations *metrics.Durations // nil: nobody asks for them
}

func newInside(began time.Time, c *config.Config) *inside {
	b := book.New(began)
	counts := telemetry.NewCounts()
	i := &inside{feed: telemetry.NewFeed(counts), counts: counts, book: b, events: admin.NewEvents()}
	if c.Metrics != "" {
		i.durations = metrics.NewDurations(began, counts)
	}
	i.setNames(c)
	return i
}

// recorders are told of each request that is over.
func (i *inside) recorders() telemetry.Recorders {
	all := telemetry.Recorders{i.feed}
	if i.durations != nil {
		all = append(all, i.durations)
	}
	return all
}

// setNames tells which classes and request limits are counted by name.
func (i *inside) setNames(c *config.Config) {
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
	s.inside.feed.Drain(now, append([]telemetry.Sink{s.inside.book, s.accessLog.Words()}, s.history.sinks()...)...)
}

// runInside adds up until the context ends.
func (s *sidecar) runInside(ctx context.Context) {
	i := s.inside
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
				i.events.Publish(i.book.Tick(now, s.moment(now)))
			}
		}
	}
}

func (s *sidecar) moment(now time.Time) book.Moment {
	return book.Moment{Waiting: s.handler.WaitingByGroup(now), Gate: s.limiter.GateState().Shown(), CPUs: policy.CPUs(s.loaded.inForce())}
}

// mostPlaces is how many pages are told that requests at the backend are for.
const mostPlaces = 5

// overview is who uses the server at this moment.
func (s *sidecar) overview() api.OverviewReply {
	now, c := time.Now(), s.loaded.inForce()
	m := s.moment(now)
	m.Places = s.handler.AtBackend(mostPlaces)
	reply := s.inside.book.Overview(m)
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
	c, connections, sharing := s.loaded.inForce(), s.connections.table.Stats(0), s.sharing.Reply()
	h := &inspect.Health{
		Overview: o, Backend: c.Backend.URL, Certificates: s.encryption.status(), Connections: connections.Open, MostOpen: connections.Most,
		Trouble: sharing.Trouble, Up: s.sharing.Numbers().Up, Rejected: s.loaded.rejects(),
	}
	h.LostLines, h.WhyLost = s.logs.output.Losing(now)
	return inspect.Conditions(now, h)
}

// mostRecent is how many verdicts are looked through for those that are alike.
const mostRecent = 10_000

// shown is what the admin API shows of it.
func (s *sidecar) shown() admin.Inside {
	b := s.inside.book
	recent := func(limit int, each bool) api.RecentReply {
		if each {
			return b.Recent(limit)
		}
		all := b.Recent(mostRecent)
		all.Rows = inspect.Grouped(all.Rows, limit)
		return all
	}
	return admin.Inside{Overview: s.overview, Shapes: b.Shapes, Recent: recent, Series: b.Series, Events: s.inside.events}
}
