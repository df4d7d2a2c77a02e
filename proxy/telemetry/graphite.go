package telemetry

import (
	"context"
	"errors"
	"net"
	"time"

	"go.uber.org/zap"
)

// How Graphite is tried again after a failure: at first after a second, then
// after twice the last pause, at most each minute.
const (
	graphiteFirstPause = time.Second
	graphiteLastPause  = time.Minute
	graphiteTimeout    = 10 * time.Second // for one dial and the write after it
)

// GraphiteOptions say what is sent where. All functions must be safe for
// concurrent use.
type GraphiteOptions struct {
	Address   string        // host:port of the plaintext protocol (TCP)
	Prefix    string        // before each series; {hostname} is replaced
	Hostname  string        // what it is replaced with
	Interval  time.Duration // between two samples, above 0
	Threshold time.Duration // keys whose average wait is over it are counted
	Ledger    Ledger
	Totals    func() map[string]float64 // further series by name: requests, delayed, refused, …; nil: none
	Now       func() time.Time
	Log       *zap.Logger                                                          // nil: nothing is logged
	Dial      func(ctx context.Context, network, address string) (net.Conn, error) // nil: net.Dialer's
}

// Graphite sends statistics to a Graphite server, one connection for each
// sample: at one sample a minute a kept one would save nothing, and a write into
// a connection that died meanwhile looks like a success. It keeps nothing
// but the newest sample, so that a dead Graphite costs nobody anything.
type Graphite struct {
	o      GraphiteOptions
	prefix string
	outage outage
}

// outage is a time without Graphite. It is logged twice, when it begins and
// when it is over.
type outage struct {
	since time.Time // zero: there is none
	lost  int       // samples that newer ones replaced
	pause time.Duration
}

// NewGraphite makes a sender; it opens nothing.
func NewGraphite(o GraphiteOptions) *Graphite {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	return &Graphite{o: o, prefix: graphitePrefix(o.Prefix, o.Hostname)}
}

// Run takes a sample each interval and sends it, until ctx ends. It is meant to
// have a goroutine of its own.
func (g *Graphite) Run(ctx context.Context) {
	tick := time.NewTicker(g.o.Interval)
	defer tick.Stop()
	var pending []byte
	var retry <-chan time.Time // nil: not waiting to try again
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if pending != nil {
				g.outage.lost++
			}
			pending = g.sample()
			if retry != nil {
				continue
			}
		case <-retry:
		}
		err := g.send(ctx, pending)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			retry = time.After(g.failed(err))
			continue
		}
		pending, retry = nil, nil
		g.succeeded()
	}
}

// send writes one sample, in bounded time.
func (g *Graphite) send(ctx context.Context, sample []byte) error {
	ctx, cancel := context.WithTimeout(ctx, graphiteTimeout)
	defer cancel()
	conn, err := g.o.Dial(ctx, "tcp", g.o.Address)
	if err != nil {
		return err
	}
	// Closing ends a write under way, at the timeout and at the end of Run.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	_, err = conn.Write(sample)
	if !stop() { // closed already
		return errors.Join(ctx.Err(), err)
	}
	return errors.Join(err, conn.Close())
}

// failed notes a failure and returns the pause before the next attempt.
func (g *Graphite) failed(err error) time.Duration {
	if g.outage.since.IsZero() {
		g.outage.since = g.o.Now()
		g.o.Log.Warn("graphite cannot be reached; only the newest sample is kept",
			zap.String("address", g.o.Address), zap.Error(err))
	}
	g.outage.pause = min(max(2*g.outage.pause, graphiteFirstPause), graphiteLastPause)
	return g.outage.pause
}

// succeeded ends the outage, if there is one.
func (g *Graphite) succeeded() {
	if !g.outage.since.IsZero() {
		g.o.Log.Info("graphite is reached again", zap.String("address", g.o.Address),
			zap.Duration("outage", g.o.Now().Sub(g.outage.since)), zap.Int("samplesLost", g.outage.lost))
	}
	g.outage = outage{}
}
