package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"tempomat/classify/mmdb"
	"tempomat/classify/standing"
	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/config"
	"tempomat/proxy/replay"
)

// replayed is what the flags of replay choose.
type replayed struct {
	config  string
	cpus    float64
	workers int
	json    bool
}

// replay reads an access log and shows what limits would have done.
func (d *doctor) replay() *cobra.Command {
	var ask replayed
	c := &cobra.Command{
		Use: "replay ACCESS_LOG",
		Example: `  tempomat-doctor replay /var/log/apache2/timed.log
  zcat -f timed.log.2.gz timed.log.1 timed.log | tempomat-doctor replay -`,
		Short: "Show what limits and the queue would have done with the requests of an access log",
		Long: `Show what limits and the queue would have done with the requests of an access log,
by class and by hour. - is standard input. The log may be compressed
by gzip. If you have several logs, give them in the order of time.

The log must contain the duration of each request; the default logs of Apache and nginx
don't. Have the server write such a log for a day first:

` + replay.Expected + `

The requests run through the proxy's own code, on virtual time and in front of a simulated
backend. Their cost is estimated from their duration. That overstates the CPU time of pages
that wait for a database, and of all pages while the server was overloaded. To correct the
latter, a request counts for its part of the CPUs among the requests of the same time.
tempomat-proxy's own log contains the CPU time.

Not replayed: cookies and headers other than the User-Agent, classes by header, limits in
requests, the redirect of newcomers, decisions of a master or of peers. Clients in the replay
neither give up nor come back because of a wait. Modes observe and shadow are replayed as fair.`,
		Args: daemon.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error { return d.replayFile(c.Context(), args[0], ask) },
	}
	f := c.Flags()
	f.StringVar(&ask.config, "config", "", "the configuration whose limits are tried (default: the built-in one)")
	f.Float64Var(&ask.cpus, "cpus", 0, "CPUs of the backend (default cpuCount of the configuration, or those of this machine)")
	f.IntVar(&ask.workers, "workers", 0, "workers of the backend (default backend.workers of the configuration, or eight for each CPU and at least 16)")
	f.BoolVar(&ask.json, "json", false, "print a JSON document")
	return c
}

// replayFile replays a log and prints what was found.
func (d *doctor) replayFile(ctx context.Context, name string, ask replayed) error {
	setup, err := ask.setup(d.env)
	if err != nil {
		return err
	}
	file := os.Stdin
	if name != "-" {
		if file, err = os.Open(name); err != nil {
			return err
		}
		defer file.Close()
	}
	log, err := unpacked(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r, err := replay.Run(ctx, log, setup)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if ask.json {
		return d.printJSON(r)
	}
	d.printReplay(r)
	return nil
}

// setup makes of the flags and the configuration what the log is replayed with.
func (ask replayed) setup(env []string) (s replay.Setup, err error) {
	c := config.Default()
	if ask.config != "" {
		if c, err = config.Load(ask.config, env); err != nil {
			return s, fmt.Errorf("can't use %s:\n%w", ask.config, err)
		}
	}
	switch {
	case ask.cpus < 0 || ask.cpus > 4096:
		return s, fmt.Errorf("--cpus %g: must be above 0, at most 4096", ask.cpus)
	case ask.workers < 0 || ask.workers > 65536:
		return s, fmt.Errorf("--workers %d: must be from 1 to 65536", ask.workers)
	}
	c.CPUCount = cmp.Or(ask.cpus, c.CPUCount)
	if c.Throttle.Shadow = false; c.Throttle.Mode == "observe" {
		c.Throttle.Mode = "fair"
	}
	c.Coordination.Kind = config.SharesNothing
	cpus := policy.CPUs(c)
	s = replay.Setup{
		Policy: policy.Limits(c), TableSize: c.Table.Size,
		CPUs: cpus, Workers: cmp.Or(ask.workers, c.Backend.Workers, max(16, int(8*cpus))),
		Measures: policy.MeasuresUse(c),
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

// unpacked reads a log, which gzip may have compressed.
func unpacked(file io.Reader) (io.Reader, error) {
	plain := bufio.NewReaderSize(file, 256<<10)
	if begin, _ := plain.Peek(2); string(begin) == "\x1f\x8b" {
		return gzip.NewReader(plain)
	}
	return plain, nil
}

const (
	// keysShown is how many keys of a class are shown, and hoursShown how many hours if there
	// were hours without waits.
	keysShown  = 10
	hoursShown = 48
)

// printReplay prints what a replay found.
func (d *doctor) printReplay(r *replay.Report) {
	width := d.screen().width
	printSummary(&d.out, r)
	printHours(&d.out, r, width)
	for _, c := range r.Classes {
		printClass(&d.out, c, width)
	}
}

func printSummary(w io.Writer, r *replay.Report) {
	t, span := r.Total, r.To.Sub(r.From)
	fmt.Fprintf(w, "%s requests from %s to %s\n", view.Count(t.Requests), clock(r.From), clock(r.To))
	fmt.Fprintf(w, "Replayed in mode %s on %s CPUs with %d workers: %s CPU-hours, %s of the CPUs.\n",
		r.Mode, short(r.CPUs), r.Workers, view.Decimals(t.CPUSeconds/3600, 2), view.Percent(t.CPUSeconds, span.Seconds()*r.CPUs))
	for _, g := range []struct {
		name string
		replay.Group
	}{{"known clients", t.Known}, {"strangers", t.Strangers}} {
		fmt.Fprintf(w, "Of %s requests of %s %s would have waited 100 ms or more (%s s at most), and %s would have been refused.\n",
			view.Count(g.Requests), g.name, view.Count(g.Delayed), view.Decimals(g.Longest, 2), view.Count(g.Refused))
		if g.TurnedAway > 0 {
			fmt.Fprintf(w, "The backend would have rejected %s of these because all workers were busy.\n", view.Count(g.TurnedAway))
		}
	}
	if t.Exempt > 0 {
		fmt.Fprintf(w, "%s were exempt.\n", view.Count(t.Exempt))
	}
	if t.Trusted > 0 {
		fmt.Fprintf(w, "%s have the address of a trusted proxy. Log the address of its client instead (Apache: mod_remoteip, nginx: realip).\n", view.Count(t.Trusted))
	}
	printLines(w, r.Lines)
}

// printLines prints which lines were not replayed.
func printLines(w io.Writer, l replay.Lines) {
	for _, x := range []struct {
		n    int
		text string
	}{
		{l.None, "lines contain no request."},
		{l.LeftOut, "lines are missing according to the log. Set log: {access: all} to log every request."},
		{l.Unordered, "lines were skipped because they are far behind others in time. Give logs in the order of time."},
		{l.Clipped, fmt.Sprintf("requests took longer than %s. They are replayed later than they came.", replay.Window)},
		{l.Bad, "lines that could not be read:"},
	} {
		if x.n > 0 {
			fmt.Fprintf(w, "%s %s\n", view.Count(x.n), x.text)
		}
	}
	for _, f := range l.Faults {
		fmt.Fprintf(w, "  line %d: %s\n", f.Line, f.Reason)
	}
}

// printHours prints all hours if they are few, otherwise those with waits.
func printHours(w io.Writer, r *replay.Report, width int) {
	g := view.NewTable("hours  waits of 100 ms or more, of known clients and of strangers",
		"Requests", "Cpu[s]", "Busy", "Known", "p95[s]", "max[s]", "Refused", "Strange", "p95[s]", "max[s]", "Refused", "Hour")
	quiet := 0
	for _, h := range r.Hours {
		if len(r.Hours) > hoursShown && isQuiet(h.Known) && isQuiet(h.Strangers) {
			quiet++
			continue
		}
		cells := []string{strconv.Itoa(h.Requests), view.Decimals(h.CPUSeconds, 0), view.Percent(h.Busy, 1)}
		for _, x := range []replay.Group{h.Known, h.Strangers} {
			cells = append(cells, strconv.Itoa(x.Delayed), view.Decimals(x.P95, 2), view.Decimals(x.Longest, 2), strconv.Itoa(x.Refused))
		}
		g.Add(append(cells, h.Begin.Format("2006-01-02 15:04 -0700"))...)
	}
	fmt.Fprintln(w)
	g.Print(w, width)
	if quiet > 0 {
		fmt.Fprintf(w, "No request waited in %s other hours.\n", view.Count(quiet))
	}
}

func isQuiet(g replay.Group) bool { return g.Delayed+g.Refused+g.TurnedAway == 0 }

func printClass(w io.Writer, c replay.Class, width int) {
	g := view.NewTable(fmt.Sprintf("%s  %s keys, %s requests, %s delayed (%s for debt), %s refused, %s CPU-hours", c.Class,
		view.Count(c.Keys), view.Count(c.Requests), view.Count(c.Delayed), view.Count(c.Owing), view.Count(c.Refused), view.Decimals(c.CPUSeconds/3600, 2)),
		"Cpu[s]", "Requests", "Delayed", "Refused", "Max[s]", "Title")
	for _, k := range c.Top[:min(keysShown, len(c.Top))] {
		g.Add(view.Decimals(k.CPUSeconds, 0), strconv.Itoa(k.Requests), strconv.Itoa(k.Delayed), strconv.Itoa(k.Refused), view.Decimals(k.Longest, 2), k.ID)
	}
	fmt.Fprintln(w)
	g.Print(w, width)
}

func clock(t time.Time) string { return t.Format("2006-01-02 15:04:05 -0700") }

// short is a number with as many digits as it needs, at most three.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }
