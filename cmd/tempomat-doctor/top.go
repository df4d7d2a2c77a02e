package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/top"
	"tempomat/limiter"
)

const (
	leastInterval = 200 * time.Millisecond
	mostInterval  = time.Hour
	pipedWidth    = 120 // of a frame that is not for a terminal
	pipedHeight   = 50
)

// top shows who uses the server, live.
func (d *doctor) top() *cobra.Command {
	var once, document bool
	pane, interval := "", time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live who uses the server, for what, and who waits",
		Long: `Show live who uses the server, for what, and who waits. Above is who uses the CPUs
(known clients, newcomers, strangers, robots), below the pane that Tab or 1 to 6
chooses: an overview in words, the keys of a class, the pages that the CPU goes to,
the queue, the last refusals and redirects, the gate. ? tells the keys.

Where the output is no terminal, or TERM is dumb, it is one frame without colours.
NO_COLOR is respected.`,
		Example: `  tempomat-doctor top
  tempomat-doctor top --pane queue --interval 5s
  tempomat-doctor top --once --pane gate
  tempomat-doctor top --pane queue --json
  tempomat-doctor top --once | mail -s 'who uses the server' root`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := d.topOptions(pane, interval)
			if err != nil {
				return err
			}
			if document {
				path, query := o.Pane.Document()
				return d.raw(c.Context(), path, query)
			}
			return d.showTop(c.Context(), o, once)
		},
	}
	c.Flags().DurationVar(&interval, "interval", time.Second, "how often to ask, 200ms to 1h")
	c.Flags().BoolVar(&once, "once", false, "print one frame and end")
	c.Flags().BoolVar(&document, "json", false, "print the admin API's document of the pane and end")
	c.Flags().StringVar(&pane, "pane", top.Panes()[0], "the `pane` to begin with: "+strings.Join(top.Panes(), ", "))
	complete(c, "pane", words(top.Panes()...))
	complete(c, "interval", words("200ms", "1s", "5s"))
	return c
}

func (d *doctor) topOptions(pane string, interval time.Duration) (top.Options, error) {
	var faults []error
	at := slices.Index(top.Panes(), pane)
	if at < 0 {
		faults = append(faults, fmt.Errorf("--pane: %q is unknown; known: %s", pane, strings.Join(top.Panes(), ", ")))
	}
	if interval < leastInterval || interval > mostInterval {
		faults = append(faults, fmt.Errorf("--interval: %s is not from %s to %s", interval, leastInterval, "1h"))
	}
	return top.Options{Interval: interval, Pane: top.Pane(at), Gate: gateLines, ASCII: !knowsUnicode(d.env)}, errors.Join(faults...)
}

// gateLines is the gate as its pane shows it.
func gateLines(g limiter.GateState) []string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	printGate(out, g)
	_ = out.Flush() // into memory
	return strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
}

// knowsUnicode says what the locale says of the terminal.
func knowsUnicode(env []string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := variable(env, name); v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			return strings.Contains(v, "utf8")
		}
	}
	return false
}

func (d *doctor) showTop(ctx context.Context, o top.Options, once bool) error {
	c := d.client()
	c.stay()
	defer c.http.CloseIdleConnections()
	live := isTerminal(d.stdout)
	term := variable(d.env, "TERM")
	if live && !once && term != "" && term != "dumb" {
		return top.Live(ctx, c, o, func() (tcell.Screen, error) {
			// The terminal is asked nothing: what it answers late would be typed into the shell.
			screen, err := tcell.NewScreen(tcell.OptSanitizeContent(true), tcell.OptNegotiation(false))
			if err != nil {
				err = errors.Join(errors.New("the terminal cannot be used; --once needs none"), err)
			}
			return screen, err
		})
	}
	view := screenOf(d.stdout, d.env)
	if live {
		view.height-- // for the shell, below
	}
	if view.width == 0 {
		view.width = pipedWidth
	}
	if view.height <= 0 {
		view.height = pipedHeight
	}
	return top.Once(ctx, d.stdout, c, o, view.width, view.height)
}

// Get asks for a document: top's Source.
func (c *client) Get(ctx context.Context, path string, query url.Values, reply any) error {
	return c.get(ctx, path, query, reply)
}

// printGate prints how the queue before the backend stands.
func printGate(out io.Writer, g limiter.GateState) {
	use := "not measured"
	if g.Utilisation >= 0 {
		use = fmt.Sprintf("%.0f %% of the CPUs", 100*g.Utilisation)
	}
	if g.Workers > 0 {
		fmt.Fprintf(out, "at the backend\t%d of %d workers, by %s\n", g.Busy, g.Workers, g.WorkersBy)
		fmt.Fprintf(out, "not short\t%d of %d\n", g.LongBusy, g.LongMost)
	} else {
		fmt.Fprintf(out, "at the backend\t%d of any number, by %s\n", g.Busy, g.WorkersBy)
		fmt.Fprintf(out, "not short\t%d\n", g.LongBusy)
	}
	fmt.Fprintf(out, "of those, only holding\t%d\n", g.Holding)
	fmt.Fprintf(out, "orphans\t%d\n", g.Orphans)
	fmt.Fprintf(out, "room\tfor %d of a size, or shorter\n", g.Room)
	fmt.Fprintf(out, "size\t%s\n", "25ms  0.1s  0.4s  1.6s  6.4s 25.6s  more")
	fmt.Fprintf(out, "computing\t%s\n", bySize(g.Computing[:]))
	fmt.Fprintf(out, "of those, ahead\t%s\n", bySize(g.Ahead[:]))
	fmt.Fprintf(out, "holding workers\t%s\n", bySize(g.Held[:]))
	fmt.Fprintf(out, "probes\t%d\n", g.Probes)
	fmt.Fprintf(out, "waiting\t%d\n", g.Queued)
	fmt.Fprintf(out, "shed\t%d since the start\n", g.Shed)
	fmt.Fprintf(out, "use\t%s\n", use)
	fmt.Fprintf(out, "clock\t%.1f CPU-s by share\n", g.Clock)
	printSites(out, g.Sites)
}

// bySize is the numbers of requests of each size, the shortest first.
func bySize(counts []int) string {
	var b strings.Builder
	for _, n := range counts {
		fmt.Fprintf(&b, "%4d  ", n)
	}
	return strings.TrimRight(b.String(), " ")
}
