package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"tempomat/classify/mmdb"
	"tempomat/classify/standing"
	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/config"
	"tempomat/proxy/replay"
)

// replayed is what the flags of replay choose.
type replayed struct {
	config  string
	cpus    float64
	workers int
	format  string
	wall    bool
	json    bool
}

// replay reads an access log and tells what limits would have done.
func (d *doctor) replay() *cobra.Command {
	var ask replayed
	c := &cobra.Command{
		Use: "replay ACCESS_LOG",
		Example: `  tempomat-doctor replay /var/log/apache2/timed.log
  zcat -f timed.log.2.gz timed.log.1 timed.log | tempomat-doctor replay -`,
		Short: "Tell what limits and the gate would have done with the requests of an access log",
		Long: `Tell what limits and the gate would have done with the requests of an access log,
by class and by hour, and propose shares. - is standard input; a log may be compressed
by gzip. Several are to be given in the order of time.

The log must have the duration of each request, which the logs that Apache and nginx write
unless told otherwise do not have. Have the server write such a log for a day first:

` + replay.Expected + `

Requests are run, on virtual time, through what serves them, before a simulated backend.
What one costs is taken from how long it took: that is wall time, and overstates CPU
time, of pages that wait for a database always, and of all while the server was
overloaded. Against the latter a request counts for its part of the CPUs among those
that were there at the same time, unless --wall is given. tempomat-proxy's own log tells
CPU time.

Not replayed: cookies and other headers than the User-Agent, classes by header, limits in
requests, the redirect of newcomers, what a master or peers say. Nobody gives up, or
comes again, because of a wait. Modes observe and shadow are replayed as fair would act.`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error { return d.replayFile(c.Context(), args[0], ask) },
	}
	f := c.Flags()
	f.StringVar(&ask.config, "config", "", "the configuration whose limits are tried (default: what a configuration that says nothing sets)")
	f.Float64Var(&ask.cpus, "cpus", 0, "CPUs of the backend (default cpuCount of the configuration, or those of this machine)")
	f.IntVar(&ask.workers, "workers", 0, "workers of the backend (default backend.workers of the configuration, or eight for each CPU and at least 16)")
	f.StringVar(&ask.format, "format", string(replay.Auto), "format of the lines: "+formats())
	f.BoolVar(&ask.wall, "wall", false, "a request costs all of the time that it took")
	f.BoolVar(&ask.json, "json", false, "a document instead of tables")
	return c
}

func formats() string {
	var names []string
	for _, f := range replay.Formats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// replayFile replays a log and prints what was found.
func (d *doctor) replayFile(ctx context.Context, name string, ask replayed) error {
	setup, err := ask.setup(d.env)
	if err != nil {
		return err
	}
	log, err := openLog(name, d.stderr)
	if err != nil {
		return err
	}
	defer log.Close()
	r, err := replay.Run(ctx, log, setup)
	log.done()
	if err != nil {
		return fmt.Errorf("%s: %w", harmless.Text(name), err)
	}
	if !ask.json {
		return printReplay(d.stdout, r, screenOf(d.stdout, d.env).width)
	}
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.stdout, harmless.JSON(document))
	return err
}

// setup makes of the flags and the configuration what the log is replayed with.
func (ask replayed) setup(env []string) (s replay.Setup, err error) {
	c := config.Default()
	if ask.config != "" {
		if c, err = config.Load(ask.config, env); err != nil {
			return s, fmt.Errorf("%s cannot be used:\n%w", ask.config, err)
		}
	}
	switch {
	case ask.cpus < 0 || ask.cpus > 4096:
		return s, fmt.Errorf("--cpus %g: must be above 0, at most 4096", ask.cpus)
	case ask.workers < 0 || ask.workers > 65536:
		return s, fmt.Errorf("--workers %d: must be from 1 to 65536", ask.workers)
	case !slices.Contains(replay.Formats(), replay.Format(ask.format)):
		return s, fmt.Errorf("--format %q: must be one of %s", ask.format, formats())
	}
	c.CPUCount = cmp.Or(ask.cpus, c.CPUCount)
	if c.Throttle.Shadow = false; c.Throttle.Mode == "observe" {
		c.Throttle.Mode = "fair"
	}
	c.Coordination.Kind = config.SharesNothing
	cpus := policy.CPUs(c)
	s = replay.Setup{
		Format: replay.Format(ask.format), Policy: policy.Limits(c), TableSize: c.Table.Size,
		CPUs: cpus, Workers: cmp.Or(ask.workers, c.Backend.Workers, max(16, int(8*cpus))),
		Measures: policy.MeasuresUse(c), Wall: ask.wall,
	}
	store := mmdb.New(zap.NewNop())
	databases, err := policy.Databases(c, store)
	if err = errors.Join(err, store.Fault()); err != nil {
		return s, err
	}
	if s.Rules.Classifier, err = policy.Classifier(c, databases); err != nil {
		return s, err
	}
	if policy.JudgesStanding(c) { // what the hashes are keyed with does not matter here
		if s.Rules.Standing, err = standing.New([16]byte{}, policy.Standing(c)); err != nil {
			return s, err
		}
	}
	s.Rules.Meter = policy.Meter(c.Cost.Source, cpus)
	return s, nil
}

// accessLog is a log as it is read, perhaps with a bar that shows how much of it was.
type accessLog struct {
	io.Reader
	file *os.File
	bar  *progress // nil: none
}

// openLog opens a log; "-" is standard input.
func openLog(name string, stderr io.Writer) (*accessLog, error) {
	l := &accessLog{file: os.Stdin}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		l.file = f
	}
	var from io.Reader = l.file
	if l.bar = progressOf(l.file, stderr); l.bar != nil {
		from = io.TeeReader(l.file, l.bar)
	}
	plain := bufio.NewReaderSize(from, 256<<10)
	l.Reader = plain
	if begin, _ := plain.Peek(2); string(begin) == "\x1f\x8b" {
		z, err := gzip.NewReader(plain)
		if err != nil {
			l.done()
			return nil, errors.Join(fmt.Errorf("%s: %w", harmless.Text(name), err), l.Close())
		}
		l.Reader = z
	}
	return l, nil
}

// Close closes the file.
func (l *accessLog) Close() error {
	if l.file == os.Stdin {
		return nil
	}
	return l.file.Close()
}

// done takes the bar away.
func (l *accessLog) done() {
	if l.bar != nil {
		l.bar.clear()
	}
}
