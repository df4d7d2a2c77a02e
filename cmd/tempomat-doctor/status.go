package main

import (
	"fmt"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tempomat/proxy"
)

// status shows how the proxy itself is.
func (d *doctor) status() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the proxy itself is",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var reply proxy.StatusReply
			if err := d.client().get(c.Context(), "/v1/status", nil, &reply); err != nil {
				return err
			}
			out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintf(out, "release\t%s\n", printable(reply.Release))
			fmt.Fprintf(out, "uptime\t%s\n", time.Duration(reply.Uptime)*time.Second)
			fmt.Fprintf(out, "mode\t%s\n", printable(reply.Mode))
			fmt.Fprintf(out, "held\t%d\n", reply.Held)
			fmt.Fprintf(out, "goroutines\t%d\n", reply.Goroutines)
			for _, name := range slices.Sorted(maps.Keys(reply.Counters)) {
				fmt.Fprintf(out, "%s\t%d\n", printable(name), reply.Counters[name])
			}
			return out.Flush()
		},
	}
}
