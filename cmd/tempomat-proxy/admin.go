package main

import (
	"context"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter"
	"tempomat/proxy/admin"
	"tempomat/proxy/handover"
	"tempomat/proxy/telemetry/metrics"
)

// openAdmin opens the admin API's socket. Without it, nil, the site goes on all the same.
func (s *sidecar) openAdmin(address string) *handover.Socket {
	if address == "" {
		return nil
	}
	l, err := admin.Listen(address)
	if err != nil {
		s.logs.log.Error("no admin API", zap.Error(err))
		return nil
	}
	return &handover.Socket{Listener: l, Role: roleAdmin, Address: address, Owned: true}
}

// serveAdmin answers the doctor, and browsers, until the context ends. Either listener may
// be nil.
func (s *sidecar) serveAdmin(ctx context.Context, unix, web net.Listener, ready func() error) {
	admin := admin.New(admin.Options{
		Ledger:     s.limiter,
		Now:        time.Now,
		Status:     s.status,
		Gate:       func() limiter.GateState { return s.limiter.GateState().Shown() },
		Kernel:     s.kernel,
		Share:      s.sharing.Reply,
		Conditions: s.conditions,
		Ready:      ready,
		Reload:     s.reload,
		Waiting:    s.loaded.keysWaiting,
		Inside:     s.shown(),
		Inspector:  s.inspector,
		Actor:      s.inspector,
		History:    s.history.reply(),
		Access:     &s.access,
		Replace:    handover.Handler(s.handOver),
		Log:        s.logs.log,
	})
	shut := context.AfterFunc(ctx, func() {
		limit, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := admin.Shutdown(limit); err != nil {
			s.logs.log.Debug("admin API cut", zap.Error(err))
		}
	})
	defer shut()
	var all sync.WaitGroup
	defer all.Wait()
	if web != nil {
		all.Go(func() { s.logEnd(admin.ServeWeb(web)) })
	}
	if unix != nil {
		all.Go(func() { s.logEnd(admin.Serve(unix)) })
	}
}

func (s *sidecar) logEnd(err error) {
	if err != nil {
		s.logs.log.Error("admin API ended", zap.Error(err))
	}
}

// topHolders is how many addresses and networks are told that hold most connections.
const topHolders = 10

func (s *sidecar) status() admin.Status {
	return admin.Status{
		Release:     version,
		Started:     s.started,
		Mode:        s.loaded.inForce().Throttle.Mode,
		Held:        s.limiter.Held(),
		Buffer:      s.policies.spools.Stats(),
		Connections: s.connections.table.Stats(topHolders),
		Counters:    metrics.Counters(s.numbers()),

		Certificates: s.encryption.status(),
	}
}
