package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tempomat/limiter"
	"tempomat/proxy"
)

// gate shows how the queue before the backend stands.
func (d *doctor) gate() *cobra.Command {
	return &cobra.Command{
		Use:   "gate",
		Short: "Show the queue before the backend: who has slots, who waits",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var g proxy.GateReply
			if err := d.client().get(c.Context(), "/v1/gate", nil, &g); err != nil {
				return err
			}
			out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', 0)
			printGate(out, g.GateState)
			return out.Flush()
		},
	}
}

func printGate(out io.Writer, g limiter.GateState) {
	use := "not measured"
	if g.Utilisation >= 0 {
		use = fmt.Sprintf("%.0f %% of the CPUs", 100*g.Utilisation)
	}
	fmt.Fprintf(out, "at the backend\t%d of %d workers, by %s\n", g.Busy, g.Workers, g.WorkersBy)
	fmt.Fprintf(out, "not short\t%d of %d\n", g.LongBusy, g.LongMost)
	fmt.Fprintf(out, "of those, only holding\t%d\n", g.Holding)
	fmt.Fprintf(out, "orphans\t%d\n", g.Orphans)
	fmt.Fprintf(out, "heavy\t%d of %d slots\n", g.HeavyBusy, g.HeavySlots)
	fmt.Fprintf(out, "express\t%d of %d slots\n", g.ExpressBusy, g.Express)
	fmt.Fprintf(out, "of those, strangers\t%d of %d\n", g.StrangerRun, g.Strangers)
	fmt.Fprintf(out, "probes\t%d\n", g.Probes)
	fmt.Fprintf(out, "waiting\t%d\n", g.Queued)
	fmt.Fprintf(out, "shed\t%d since the start\n", g.Shed)
	fmt.Fprintf(out, "use\t%s\n", use)
	fmt.Fprintf(out, "clock\t%.1f CPU-s by share\n", g.Clock)
}

// printClient shows how a client stands at the gate.
func printClient(out io.Writer, c limiter.ClientRow) {
	known := "no, a stranger"
	if c.Known {
		known = "yes"
	}
	fmt.Fprintf(out, "known\t%s\n", known)
	fmt.Fprintf(out, "standing\t%g times its share\n", c.Standing)
	fmt.Fprintf(out, "lag\t%.2f CPU-s ahead of its turn\n", c.Lag)
	fmt.Fprintf(out, "lanes\t%d light, %d heavy, %d that hold a worker wait; %d in express slots\n", c.Light, c.Heavy, c.Waits, c.Express)
	if c.Light+c.Heavy+c.Waits > 0 {
		fmt.Fprintf(out, "rank\t%.1f beyond the clock\n", c.Rank)
	}
}
