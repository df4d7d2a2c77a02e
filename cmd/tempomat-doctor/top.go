package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
)

const (
	leastInterval = 200 * time.Millisecond
	mostInterval  = time.Hour
	pipedWidth    = 120 // the size of a frame that isn't for a terminal
	pipedHeight   = 50
)

// top makes the command that shows live which clients use the server.
func (d *doctor) top() *cobra.Command {
	var once, document bool
	pane, interval := "", time.Second
	c := &cobra.Command{
		Use:   "top",
		Short: "Show live which clients use the server, for which pages, and which clients wait",
		Long: `Show live which clients use the server, for which pages, and which clients wait. The top of the
screen shows the CPU use of each group (known clients, newcomers, strangers, robots). Tab or 1 to 6
chooses the pane below it: an overview in words, the keys of a class, the pages that use the CPU,
the queue, the last refusals and redirects, or the gate. ? lists the keyboard commands.

If the output isn't a terminal, or TERM is dumb, top prints one frame without colours.
top respects NO_COLOR.`,
		Example: `  tempomat-doctor top
  tempomat-doctor top --pane queue --interval 5s
  tempomat-doctor top --once --pane gate
  tempomat-doctor top --pane queue --json
  tempomat-doctor top --once | mail -s 'who uses the server' root`,
		Args: daemon.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := paneOf(pane, interval)
			if err != nil {
				return err
			}
			if document {
				path, query := at.Document()
				return d.answer(c.Context(), d.fleet, path, query, true, nil, nil)
			}
			return d.showTop(c.Context(), at, interval, once)
		},
	}
	c.Flags().DurationVar(&interval, "interval", time.Second, "time between updates, 200ms to 1h")
	c.Flags().BoolVar(&once, "once", false, "print one frame and exit")
	c.Flags().BoolVar(&document, "json", false, "print the admin API's document for the pane and exit")
	c.Flags().StringVar(&pane, "pane", view.Panes()[0], "the `pane` to show first: "+strings.Join(view.Panes(), ", "))
	complete(c, "pane", view.Panes()...)
	return c
}

// paneOf returns the pane of that name, and checks the flags.
func paneOf(pane string, interval time.Duration) (view.Pane, error) {
	var faults []error
	at := slices.Index(view.Panes(), pane)
	if at < 0 {
		faults = append(faults, fmt.Errorf("--pane: %q is unknown; known: %s", pane, strings.Join(view.Panes(), ", ")))
	}
	if interval < leastInterval || interval > mostInterval {
		faults = append(faults, fmt.Errorf("--interval: must be from %[2]s to %[3]s, not %[1]s", interval, leastInterval, "1h"))
	}
	return view.Pane(at), errors.Join(faults...)
}

func (d *doctor) showTop(ctx context.Context, pane view.Pane, interval time.Duration, once bool) error {
	c, err := d.fleet(ctx)
	if err != nil {
		return err
	}
	_, lines := terminalSize(d.stdout)
	live := lines > 0
	term := variable(d.env, "TERM")
	if live && !once && term != "" && term != "dumb" {
		return view.Live(ctx, c, pane, interval, func() (tcell.Screen, error) {
			// OptNegotiation is off, because a late answer from the terminal would become input for the shell.
			tcell.RegisterEncoding("US-ASCII", tcell.GetEncoding("UTF-8")) // today, terminals with the locale C also display Unicode
			screen, err := tcell.NewScreen(tcell.OptSanitizeContent(true), tcell.OptNegotiation(false))
			if err != nil {
				err = errors.Join(errors.New("can't use the terminal; use --once, which doesn't need one"), err)
			}
			return screen, err
		})
	}
	on := d.screen()
	if live {
		on.height-- // the last line is for the shell's prompt
	}
	if on.width == 0 {
		on.width = pipedWidth
	}
	if on.height <= 0 {
		on.height = pipedHeight
	}
	return view.Once(ctx, &d.out, c, pane, on.width, on.height)
}
