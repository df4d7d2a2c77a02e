package main

import (
	"context"
	"time"

	"tempomat/proxy/telemetry"
)

// drainEvery is how often requests that are over are added up.
const drainEvery = 250 * time.Millisecond

// inside is what requests add up to, for those who look inside.
type inside struct {
	feed  *telemetry.Feed
	sinks []telemetry.Sink
}

func newInside() *inside { return &inside{feed: telemetry.NewFeed()} }

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
