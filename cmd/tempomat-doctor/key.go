package main

import (
	"fmt"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// key shows all that is known of one key.
func (d *doctor) key() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "key CLASS ID",
		Short: "Show one key: key slash32 203.0.113.9",
		Long: `Show all that is known of one key: its level (credit, or debt that its requests wait
for), what it lately used, what of it runs and waits, and of a client how it stands at
the gate. CLASS is as configured, ID as the tables show it.`,
		Example: `  tempomat-doctor key slash32 203.0.113.9
  tempomat-doctor key slash24 203.0.113.0/24 --json`,
		ValidArgsFunction: d.classes,
		Args:              takes(2),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{"class": {args[0]}, "id": {args[1]}}
			if document {
				return d.raw(c.Context(), "/v1/key", query)
			}
			var reply api.KeyReply
			if err := d.client().get(c.Context(), "/v1/key", query, &reply); err != nil {
				return err
			}
			r := reply.Row
			account := "credit"
			if r.Level < 0 {
				account = "debt"
			}
			out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintf(out, "class\t%s\n", harmless.Text(r.Class))
			fmt.Fprintf(out, "title\t%s\n", harmless.Text(r.ID))
			fmt.Fprintf(out, "level\t%.2f CPU-s (%s)\n", r.Level, account)
			if r.Paid > 0 {
				fmt.Fprintf(out, "paid\tin %.0f s\n", r.Paid)
			}
			fmt.Fprintf(out, "wait\t%.2f s on average\n", r.Wait)
			fmt.Fprintf(out, "cpu\t%.2f CPU-s/s\n", r.CPU)
			fmt.Fprintf(out, "rate\t%.2f requests/s\n", r.Rate)
			fmt.Fprintf(out, "last\t%.0f s ago\n", r.Last)
			fmt.Fprintf(out, "running\t%d\n", r.Running)
			fmt.Fprintf(out, "waiting\t%d\n", r.Waiting)
			if r.Holds+r.Orphans > 0 {
				fmt.Fprintf(out, "workers\t%d held by requests that are not short, %d orphans\n", r.Holds, r.Orphans)
			}
			if r.Client != nil {
				printClient(out, *r.Client)
			}
			return out.Flush()
		},
	}
	asJSON(c.Flags(), &document)
	return c
}
