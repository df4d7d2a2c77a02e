package main

import (
	"context"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
)

// pingsInTime is how many pings fit into the time after which systemd ends a program that
// sends none: one that comes late is no reason.
const pingsInTime = 3

// watch tells systemd's watchdog that requests are served, until the context ends or
// another process serves. Without a watchdog (WatchdogSec= of the unit) it does nothing.
func (s *sidecar) watch(ctx context.Context) {
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		s.logs.log.Warn("no watchdog", zap.Error(err))
		return
	}
	if limit <= 0 {
		return
	}
	w := watchdog{passes: s.handler.Passes, serves: s.accepts, log: s.logs.log, ping: func() { daemon.Notify(s.logs.log, daemon.Watchdog) }}
	w.run(ctx, limit/pingsInTime)
}

// accepts looks whether a connection could be accepted, which needs the lock of the table
// of connections, and whether this process is the one that accepts them.
func (s *sidecar) accepts() bool {
	s.connections.table.Stats(0)
	return !s.replaced.gone()
}

// watchdog pings only while the request path answers: the driver, which needs the locks
// that each request needs, has made a pass since the last ping. That the backend answers
// does not matter: another start of the proxy would not help it.
type watchdog struct {
	passes func() int64
	serves func() bool // may block for as long as the request path does; false: for good
	ping   func()
	log    *zap.Logger
}

func (w *watchdog) run(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for last := int64(-1); ; {
		if !w.serves() {
			return
		}
		if passed := w.passes(); passed != last {
			last = passed
			w.ping()
		} else {
			w.log.Error("the request path does not answer: the watchdog is not told that it does")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}
