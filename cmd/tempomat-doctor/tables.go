package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/config"
	"tempomat/proxy/admin/api"
)

// The numbers of rows that are shown without --limit:
const (
	rowsOfEach = 10 // of all classes
	rowsOfOne  = 50 // of one class
)

// choice holds the flags of the tables.
type choice struct {
	bucket, sort string
	limit        int // 0: rowsOfEach or rowsOfOne
	json         bool
}

// tables makes the default command, which shows a table for each class.
func (d *doctor) tables() *cobra.Command {
	var ask choice
	c := &cobra.Command{
		Use:   "tempomat-doctor",
		Short: "Show the clients of tempomat-proxy",
		Long: `Show the clients of tempomat-proxy in a table for each class:

  Wait[s]  average delay of the key's latest requests, due to debt or the queue
  Cpu[s]   CPU-seconds per second that the key used in about the last 30 s
  Req/s    requests per second that the key made in that time
  Last[s]  time since the key's last request
  Title    the key: an address, a network, a User-Agent family, …; for a robot also how it was
           verified and when the list of its addresses was last fetched

top shows all of this live. To stop tempomat from delaying clients, set throttle: {mode: observe} in
/etc/tempomat/tempomat.yaml, then run tempomat-doctor reload.`,
		Example: `  tempomat-doctor --sort cpu
  tempomat-doctor --bucket slash24 --limit 100
  watch -n 1 tempomat-doctor --limit 3`,
		Version: version,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if ask.json {
				return d.answer(c.Context(), d.fleet, "/v1/buckets", ask.query(rowsOfOne), true, nil, nil)
			}
			return d.showTables(c.Context(), ask)
		},
	}
	f := c.Flags()
	f.StringVar(&ask.bucket, "bucket", "", "only this `class` (also --class): slash32, Slash32, userAgent, …")
	f.StringVar(&ask.sort, "sort", "wait", "sort by this `column`: wait, cpu, rate, level (the deepest debt first) or last (the latest first)")
	f.IntVar(&ask.limit, "limit", 0, "number of rows in each table (default 10; 50 with --bucket)")
	asJSON(c, &ask.json)
	complete(c, "sort", "wait", "cpu", "rate", "level", "last")
	return c
}

// showTables prints the table of one class, or of all classes.
func (d *doctor) showTables(ctx context.Context, ask choice) error {
	c, err := d.fleet(ctx)
	if err != nil {
		return err
	}
	classes, rows := []api.ClassReply{{Name: ask.bucket}}, rowsOfOne
	if ask.bucket == "" {
		var known api.ClassesReply
		if err := c.Get(ctx, "/v1/classes", nil, &known); err != nil {
			return err
		}
		classes, rows = known.Classes, rowsOfEach
	}
	for i, class := range classes {
		var t api.BucketsReply
		ask.bucket = class.Name
		if err := c.Get(ctx, "/v1/buckets", ask.query(rows), &t); err != nil {
			return err
		}
		if t.Total == 0 && len(classes) > 1 && (class.Name == config.SessionClass || class.Name == config.RobotClass) {
			continue // this class is not in use
		}
		if i > 0 {
			fmt.Fprintln(&d.out)
		}
		printable(t).Print(&d.out, d.screen().width)
	}
	return nil
}

// query returns the parameters of /v1/buckets.
func (ask choice) query(rows int) url.Values {
	return url.Values{"class": {ask.bucket}, "sort": {ask.sort}, "limit": {strconv.Itoa(cmp.Or(ask.limit, rows))}}
}

func printable(t api.BucketsReply) *view.Table {
	count := strconv.Itoa(t.Total) + " keys"
	if t.Total == 1 {
		count = "1 key"
	}
	out := view.NewTable(t.Class+"  "+count, "Wait[s]", "Cpu[s]", "Req/s", "Last[s]", "Title")
	for _, r := range t.Rows {
		title := r.ID
		if r.Proof != "" {
			title += "  (" + r.Proof + ")"
		}
		out.Add(view.Decimals(r.Wait, 2), view.Decimals(r.CPU, 2), view.Decimals(r.Rate, 2), view.Decimals(r.Last, 0), title)
	}
	return out
}

// screen is the size of the screen in characters; 0 means no limit.
type screen struct{ width, height int }

// screen returns the size of the screen. It uses COLUMNS and LINES if they are set, for example by watch, which reads
// the output from a pipe. Otherwise it asks the terminal. Output to files and other programs has no
// limit.
func (d *doctor) screen() screen {
	s := screen{width: size(d.env, "COLUMNS"), height: size(d.env, "LINES")}
	width, height := terminalSize(d.stdout)
	if s.width == 0 {
		s.width = width
	}
	if s.height == 0 {
		s.height = height
	}
	return s
}

// size reads a variable that contains a number above 0. It returns 0 for anything else.
func size(env []string, name string) int {
	n, err := strconv.Atoi(variable(env, name))
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// terminalSize asks the terminal for its size. It returns 0, 0 if w isn't a terminal.
func terminalSize(w any) (width, height int) {
	f, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	answer, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(answer.Col), int(answer.Row)
}
