package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// gate shows how the queue before the backend stands.
func (d *doctor) gate() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "gate",
		Short: "Show the queue before the backend: who computes, who waits",
		Long: `Show the queue before the backend: how many workers it has and who tells that, how many
requests of which size compute, how many wait, and how full the CPUs are. Then what costs are
known from, how many processes of the backend have stepped down in priority for others, and
what is missing for that, with what to do about it.`,
		Example: `  tempomat-doctor gate
  watch -n 1 tempomat-doctor gate`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if document {
				return d.raw(c.Context(), "/v1/gate", nil)
			}
			var g api.GateReply
			if err := d.client().get(c.Context(), "/v1/gate", nil, &g); err != nil {
				return err
			}
			out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', 0)
			printGate(out, g.GateState)
			var under bytes.Buffer // long lines, that would widen the table
			if g.Kernel != nil {
				printKernel(out, &under, g.Kernel)
			}
			if err := out.Flush(); err != nil {
				return err
			}
			_, err := under.WriteTo(d.stdout)
			return err
		},
	}
	asJSON(c.Flags(), &document)
	return c
}

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

// printClient shows how a client stands at the gate.
func printClient(out io.Writer, c limiter.ClientRow) {
	known := "no, a stranger"
	if c.Known {
		known = "yes"
	}
	fmt.Fprintf(out, "known\t%s\n", known)
	fmt.Fprintf(out, "standing\t%g times its share\n", c.Standing)
	fmt.Fprintf(out, "lead\t%.2f CPU-s ahead of its turn\n", c.Lead)
	fmt.Fprintf(out, "lanes\t%d light, %d heavy, %d that hold a worker wait\n", c.Light, c.Heavy, c.Waits)
	if c.Light+c.Heavy+c.Waits > 0 {
		fmt.Fprintf(out, "rank\t%.1f beyond the clock\n", c.Rank)
	}
}
