package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// queue shows who waits.
func (d *doctor) queue() *cobra.Command {
	var document bool
	limit := 0
	c := &cobra.Command{
		Use:   "queue",
		Short: "Show who waits, for how long, behind how many, and why",
		Long: `Show the requests that wait, who has waited for longest first:

  Wait[s]   for how long it has waited
  Guess[s]  CPU-seconds that it will likely cost; with a ? if that rests on no answers
  Before    how many go before it, as it looks now
  Group     known, newcomers, strangers or robots`,
		Example: "  tempomat-doctor queue --limit 20",
		Args:    takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			if c.Flags().Changed("limit") {
				query.Set("limit", strconv.Itoa(limit))
			}
			if document {
				return d.raw(c.Context(), "/v1/queue", query)
			}
			var reply api.QueueReply
			if err := d.client().get(c.Context(), "/v1/queue", query, &reply); err != nil {
				return err
			}
			var out strings.Builder
			printQueue(&out, reply.Rows, reply.Total, screenOf(d.stdout, d.env).width)
			_, err := d.stdout.Write([]byte(out.String()))
			return err
		},
	}
	c.Flags().IntVar(&limit, "limit", 0, "rows, up to 1000 (default 100)")
	asJSON(c.Flags(), &document)
	return c
}

// printQueue prints who waits; width 0 is without limit.
func printQueue(out *strings.Builder, rows []api.WaiterRow, total, width int) {
	if total == 0 {
		out.WriteString("no request waits\n")
		return
	}
	title := fmt.Sprintf("queue  %d wait", total)
	if len(rows) < total {
		title += fmt.Sprintf("; the first %d", len(rows))
	}
	g := grid{title: title}
	g.add("Wait[s]", "Guess[s]", "Before", "Group", "Client", "Request, and below why it waits")
	for _, r := range rows {
		sure := " "
		if !r.Sure {
			sure = "?"
		}
		before := strconv.Itoa(r.Before)
		if r.Before < 0 {
			before = "?"
		}
		g.add(figures.Decimals(r.Age, 2), figures.Decimals(r.Guess, 3)+sure, before, harmless.Text(r.Group), harmless.Text(r.Client),
			harmless.Text(r.Method+" "+r.URL))
		g.note(harmless.Text(r.Why))
	}
	g.print(out, width)
}
