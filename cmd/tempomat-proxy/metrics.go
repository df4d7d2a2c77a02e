package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"tempomat/limiter/gossip"
	"tempomat/limiter/redis"
	"tempomat/limiter/smockron"
	"tempomat/proxy/telemetry/metrics"
)

// mostScrapers is how many connections Prometheus' door has at a time: who only connects is
// not to use up the descriptors that the site's visitors need.
const mostScrapers = 32

// openMetrics opens Prometheus' door. Without it, nil, the site goes on all the same.
func (s *sidecar) openMetrics(ctx context.Context, address string) net.Listener {
	if address == "" {
		return nil
	}
	door, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		s.logs.log.Error("no metrics", zap.Error(err))
		return nil
	}
	s.logs.log.Info("metrics", zap.Stringer("address", door.Addr()))
	return netutil.LimitListener(door, mostScrapers)
}

// serveMetrics answers Prometheus until the context ends.
func (s *sidecar) serveMetrics(ctx context.Context, door net.Listener) {
	web := &http.Server{
		Handler: metrics.Handler(s.numbers, s.inside.durations), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: zap.NewStdLog(s.logs.log.Named("metrics")),
	}
	end := context.AfterFunc(ctx, func() { _ = web.Close() }) // a look that is cut is taken again
	defer end()
	if err := web.Serve(door); ctx.Err() == nil {
		s.logs.log.Error("metrics ended", zap.Error(err))
	}
}

// series is what Graphite gets.
func (s *sidecar) series() map[string]float64 { return metrics.Series(s.numbers()) }

// numbers is what there is to count at this moment. It does not take s.mu: a reload, which
// has it, waits for who asks.
func (s *sidecar) numbers() *metrics.State {
	n := &metrics.State{
		Release: version,
		Totals:  s.inside.counts.Totals(), Redirects: s.policies.newcomer.Counts(),
		Gate: s.limiter.GateState(), Held: s.limiter.Held(), Keys: s.limiter.Keys(),
		Buffer: s.policies.spools.Stats(), Connections: s.connections.table.Stats(0),
		Sharing: s.sharing.numbers(), Strict: s.policies.counts.strict(), Waiting: s.handler.WaitingByGroup(time.Now()),
	}
	s.loaded.tell(n)
	return n
}

// numbers is how sharing goes.
func (s *sharing) numbers() metrics.Sharing {
	n := metrics.Sharing{Kind: s.kind}
	s.mu.Lock()
	trouble := s.trouble
	s.mu.Unlock()
	switch {
	case trouble != nil:
		n.Up = map[string]bool{s.kind: false}
	case s.ties != nil:
		n.Up = s.ties()
	}
	if s.state == nil {
		return n
	}
	switch state := s.state().(type) {
	case gossip.State:
		c := state.Counts
		n.Peers, n.Sent, n.Received = max(0, state.Sidecars-1), c.Sent, c.Received
		n.Dropped, n.Failed, n.Unsound = c.Dropped+c.Expired, c.Unsendable, c.Malformed
		for _, p := range state.Peers {
			if p.Ignored {
				n.Ignored++
			}
		}
	case redis.State:
		n.Sent, n.Received, n.Dropped, n.Failed = state.RoundTrips, state.Raised, state.Dropped, state.Failures
	case []smockron.LinkState:
		for _, l := range state {
			n.Sent, n.Received = n.Sent+l.Sent, n.Received+l.Orders
			n.Dropped, n.Unsound = n.Dropped+l.Dropped+l.Away+l.Old, n.Unsound+l.Unsound
		}
	}
	return n
}
