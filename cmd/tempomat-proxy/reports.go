package main

import (
	"context"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

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
		telemetry.NewStatLog(r.ledger, c.Log.DelayThreshold, time.Now, r.log).Run(ctx)
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
		telemetry.NewGraphite(telemetry.GraphiteOptions{
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
