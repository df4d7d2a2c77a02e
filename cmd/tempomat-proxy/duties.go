package main

import (
	"context"
	"net"
	"sync"

	"tempomat/cmd/internal/daemon"
	"tempomat/proxy/handover"
	"tempomat/proxy/telemetry/metrics"
)

// duties are what only one process does for a site: it saves its state, shares its
// accounts, reports, and answers the doctor and Prometheus. A process that another one
// replaces gives them up as it begins to drain.
type duties struct {
	socket *handover.Socket // the admin API's; nil: there is none
	stop   context.CancelFunc
	stops  sync.Once
	all    sync.WaitGroup
}

// assume takes the duties up. The admin API's socket is opened unless it was handed over.
func (s *sidecar) assume(socket *handover.Socket, ready func() error) {
	d := &s.duties
	ctx, stop := context.WithCancel(context.Background())
	d.stop = func() { stop(); s.endReports() }
	d.all.Go(func() { s.state.run(ctx) })
	forgetHistory(s.config, s.logs.log)
	d.all.Go(func() { s.history.run(ctx) })
	d.all.Go(func() { s.sharing.Run(ctx, s.limiter) })
	s.reports.restart(s.config)
	if l := daemon.ListenMetrics(ctx, s.config.Metrics, s.logs.log); l != nil {
		d.all.Go(func() {
			daemon.Serve(ctx, l, metrics.Handler(s.numbers, s.inside.durations), "metrics", s.logs.log)
		})
	}
	if d.socket = socket; socket == nil {
		d.socket = s.openAdmin(s.config.Admin.Listen)
	}
	s.grant(s.config.Admin)
	var unix net.Listener
	if d.socket != nil {
		unix = s.connections.reserve.Admin(d.socket.Listener)
	}
	if web := s.openWeb(ctx, s.config.Admin); unix != nil || web != nil {
		d.all.Go(func() { s.serveAdmin(ctx, unix, web, ready) })
	}
}

// endReports ends the reports for good, whatever is reloaded.
func (s *sidecar) endReports() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports.stop()
	s.reports.ended = true
}

// end gives the duties up. When it returns, the state is saved for the last time, and
// what it had open is closed.
func (d *duties) end() {
	d.stops.Do(d.stop)
	d.all.Wait()
}
