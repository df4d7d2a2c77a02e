package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"go.uber.org/zap"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy"
	"tempomat/proxy/host"
)

// bills has the CPU time of the backend's workers measured.
type bills struct {
	handler *proxy.Handler
	log     *zap.Logger

	key  billKey // of what runs
	stop context.CancelFunc
	runs sync.WaitGroup

	mu      sync.Mutex // guards the following
	missing error      // why workers are not measured; nil: they are, or nobody knows yet
	ear     error      // why none can tell: nobody asked them to, or the socket cannot be; nil: they can
}

// Why the CPU time of workers is not measured, beside what package workers tells.
var (
	errNotMeasured = errors.New("cost.source has nobody look which process serves a request")
	errElsewhere   = errors.New("the backend is on another machine")
	errDeaf        = errors.New("workers cannot tell by cost.socket")
	errUntold      = errors.New("no worker tells by cost.socket")
	errNoSocket    = errors.New("there is no cost.socket")
)

// lacks is why workers are not measured; nil: they are, as far as is known. Who has set
// cost.socket is to hear what is wrong with that, not that there is such a key.
func (b *bills) lacks() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.missing == nil, errors.Is(b.ear, errNoSocket):
		return b.missing
	case b.ear != nil:
		return fmt.Errorf("%w: %w", errDeaf, b.ear)
	default:
		return fmt.Errorf("%w, and none is found: %w", errUntold, b.missing)
	}
}

func (b *bills) miss(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = err
}

// hear notes whether workers can tell.
func (b *bills) hear(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ear = err
}

// isDeaf tells whether the socket could not be opened. Its directory may be there by the next reload.
func (b *bills) isDeaf() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ear != nil && !errors.Is(b.ear, errNoSocket)
}

// billKey is what a reload has to change for it to begin anew.
type billKey struct {
	backend string
	cost    config.Cost
}

// restart measures as the configuration has it, or not at all. One goroutine at a time
// calls it, and end.
func (b *bills) restart(c *config.Config) {
	key := billKey{c.Backend.URL, c.Cost}
	if key == b.key && !b.isDeaf() {
		return
	}
	b.end()
	b.key = key
	b.miss(errNotMeasured)
	b.hear(errNoSocket)
	if policy.Meter(c.Cost.Source, 1).Measures() {
		b.begin(c)
	}
}

func (b *bills) begin(c *config.Config) {
	warn := b.log.Info
	if c.Cost.Source == "process" {
		warn = b.log.Warn
	}
	if !policy.IsLocal(c.Backend.URL) {
		b.miss(errElsewhere)
		if c.Cost.Source == "process" || c.Cost.Socket != "" {
			warn("the CPU time of the backend's workers is not measured: it is on another machine", zap.String("backend", c.Backend.URL))
		}
		return
	}
	u, err := url.Parse(c.Backend.URL)
	var finder *host.Finder
	if err == nil {
		finder, err = host.OpenFinder(u)
	}
	if b.miss(err); err != nil {
		warn("the backend's workers are not looked for; their requests' cost is estimated", zap.Error(err))
	}
	ear := b.listen(c.Cost.Socket)
	if finder == nil && ear == nil {
		return
	}
	tell := func(err error) {
		if b.miss(err); err != nil {
			warn("which worker serves a request is not seen; its cost is estimated, unless the worker tells", zap.Error(err))
			return
		}
		b.log.Info("the CPU time of requests is measured at the backend's workers")
	}
	t := host.NewTracker(finder, ear, b.database(c.Cost.Database), tell)
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	b.runs.Go(func() { b.handler.Bill(ctx, t) })
}

// listen opens the socket that workers tell by; nil: there is none.
func (b *bills) listen(address string) *host.CostSocket {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return nil
	}
	ear, err := host.OpenCostSocket(path)
	if b.hear(err); err != nil {
		b.log.Warn("workers cannot tell which request they serve", zap.Error(err))
		return nil
	}
	return ear
}

func (b *bills) database(source string) *host.Database {
	if source == "" {
		return nil
	}
	d, err := host.OpenDatabase(strings.TrimPrefix(source, "auto"))
	if err != nil {
		b.log.Warn("what the database uses is charged to nobody", zap.Error(err))
		return nil
	}
	return d
}

// end measures no more.
func (b *bills) end() {
	if b.stop != nil {
		b.stop()
		b.runs.Wait()
		b.stop = nil
	}
}
