package main

import (
	"context"
	"errors"
	"fmt"
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
	var once bool
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
  tempomat-doctor top --once | mail -s 'who uses the server' root`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := d.topOptions(pane, interval)
			if err != nil {
				return err
			}
			return d.showTop(c.Context(), o, once)
		},
	}
	c.Flags().DurationVar(&interval, "interval", time.Second, "how often to ask, 200ms to 1h")
	c.Flags().BoolVar(&once, "once", false, "print one frame and end")
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

// gateLines is the gate as its own command prints it.
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
