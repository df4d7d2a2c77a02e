package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy"
	"tempomat/proxy/host"
	"tempomat/proxy/telemetry/metrics"
)

// prioritySuffix is what the name of the record of lowered priorities has behind that of the
// state file.
const prioritySuffix = ".priorities"

// priorityPath is where it is written down what was lowered; empty: nowhere.
func priorityPath(c *config.Config) string {
	if c.State == "" {
		return ""
	}
	return c.State + prioritySuffix
}

// priorities has the backend's processes step down in priority as their requests compute.
type priorities struct {
	handler *proxy.Handler
	log     *zap.Logger

	mu      sync.Mutex // guards the following
	keeper  *host.Keeper
	failed  bool // it was given up, until the next reload
	path    string
	retired host.PriorityCounts // of Keepers before
	told    string              // what is missing, as it was logged last
	missing error               // why nothing steps down; nil: it does
}

// restart puts all back as it was, and has processes step down as the configuration has it,
// or not at all.
func (p *priorities) restart(c *config.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.path, p.failed, p.missing = priorityPath(c), false, nil
	if err := p.openLocked(c); err != nil {
		p.missing = err
		p.closeLocked()
		p.leftLocked()
		p.missLocked(c, err)
		return
	}
	p.told = ""
	p.handler.SetStepper(p.keeper, p.giveUp)
	p.keeper.Restore()
}

// Why nothing is to step down, or cannot.
var (
	errNotWanted    = errors.New("gate.priority is off")
	errNobodySlowed = errors.New("nobody is slowed: throttle.mode is not fair, or all is only judged (throttle.shadow)")
	errNoRecord     = errors.New("with state: off there is nowhere to write down what was changed")
)

// openLocked opens the Keeper if it is wanted and there is none.
func (p *priorities) openLocked(c *config.Config) (err error) {
	switch {
	case c.Gate.Priority == "off":
		return errNotWanted
	case !c.Throttle.GateActs():
		return errNobodySlowed
	case !policy.IsLocal(c.Backend.URL):
		return errElsewhere
	case !policy.Meter(c.Cost.Source, 1).Measures():
		return errNotMeasured
	case p.path == "":
		return errNoRecord
	case p.keeper != nil:
		return nil
	}
	if p.keeper, err = host.OpenKeeper(p.path); err != nil {
		return err
	}
	p.tellLeft(int(p.keeper.Counts().Recovered)) //nolint:gosec // at most a thousand
	p.log.Info("long requests' processes step down in priority")
	return nil
}

// closeLocked puts all back and ends it.
func (p *priorities) closeLocked() {
	p.handler.SetStepper(nil, nil)
	if p.keeper == nil {
		return
	}
	if err := p.keeper.Close(); err != nil {
		p.log.Warn("the record of lowered priorities", zap.Error(err))
	}
	p.retired, p.keeper = p.retired.Plus(p.keeper.Counts()), nil
}

// leftLocked puts back what others have left behind.
func (p *priorities) leftLocked() {
	if p.path == "" {
		return
	}
	left, err := host.RestorePriorities(p.path)
	if err != nil {
		p.log.Warn("priorities that were left behind may stay as they are", zap.Error(err))
	}
	p.tellLeft(left.Restored)
}

func (p *priorities) tellLeft(n int) {
	if n > 0 {
		p.log.Info("put back priorities of processes that were left behind", zap.Int("processes", n))
	}
}

// missLocked says once what is missing.
func (p *priorities) missLocked(c *config.Config, err error) {
	if errors.Is(err, errNotWanted) || errors.Is(err, errNobodySlowed) || p.told == err.Error() {
		return
	}
	p.told = err.Error()
	say := p.log.Info
	if c.Gate.Priority == "on" {
		say = p.log.Warn
	}
	say("no process steps down in priority; everything else is as usual", zap.Error(err))
}

// giveUp is told that priorities cannot be changed after all.
func (p *priorities) giveUp(err error) {
	p.log.Warn("no process steps down in priority any more; everything else is as usual", zap.Error(err))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed, p.missing = true, err
}

// lacks is why nothing steps down; nil: it does.
func (p *priorities) lacks() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing
}

// end puts all back. Nothing steps down afterwards.
func (p *priorities) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked()
}

// numbers is what was done.
func (p *priorities) numbers() metrics.Priorities {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := metrics.Priorities{On: p.keeper != nil && !p.failed, PriorityCounts: p.retired}
	if p.keeper != nil {
		n.PriorityCounts = n.Plus(p.keeper.Counts())
	}
	return n
}

// restorePriorities is the command that puts back what a proxy has left behind that was
// killed.
func restorePriorities(_ context.Context, in invocation, args []string) int {
	flags := flag.NewFlagSet("tempomat-proxy priorities", flag.ContinueOnError)
	flags.SetOutput(in.stderr)
	restore := flags.Bool("restore", false, "put back priorities that a proxy has left behind which was killed")
	file := flags.String("config", "", "configuration `file`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if !*restore || flags.NArg() > 0 {
		fmt.Fprintln(in.stderr, "usage: tempomat-proxy priorities -restore [-config FILE]")
		return 2
	}
	c, err := source{file: findFile(*file), env: in.env}.load()
	if err != nil { // a broken file is no reason to leave processes as they are
		c = config.Default()
	}
	return daemon.Status(restoreLeft(priorityPath(c), in.stdout), in.stderr)
}

func restoreLeft(path string, out io.Writer) error {
	if path == "" {
		return nil
	}
	left, err := host.RestorePriorities(path)
	if left != (host.Left{}) {
		fmt.Fprintf(out, "priorities of processes: %d put back, %d have ended, %d were changed by somebody else, %d could not be put back; %d proxies run\n",
			left.Restored, left.Ended, left.Abandoned, left.Failed, left.Busy)
	}
	if err == nil && left.Failed > 0 {
		err = errors.New("no right to put priorities back (CAP_SYS_NICE)")
	}
	return err
}
