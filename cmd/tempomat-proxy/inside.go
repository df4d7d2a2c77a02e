package main

import (
	"context"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/metrics"
)

// drainEvery is how often requests that are over are added up.
const drainEvery = 250 * time.Millisecond

// inside is what requests add up to, for those who look inside.
type inside struct {
	feed      *telemetry.Feed
	sinks     []telemetry.Sink
	counts    *telemetry.Counts
	durations *metrics.Durations // nil: nobody asks for them
}

func newInside(c *config.Config) *inside {
	i := &inside{feed: telemetry.NewFeed(), counts: telemetry.NewCounts()}
	if c.Metrics != "" {
		i.durations = metrics.NewDurations()
	}
	i.setNames(c)
	return i
}

// recorders are told of each request that is over.
func (i *inside) recorders() telemetry.Recorders {
	all := telemetry.Recorders{i.feed, i.counts}
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

// run adds up until the context ends.
func (i *inside) run(ctx context.Context) {
	ticks := time.NewTicker(drainEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			i.feed.Drain(now, i.sinks...)
		}
	}
}
