package main

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/proxy/admin/api"
)

// explain makes the command that prints what happens to a client, a page or a request, and why.
func (d *doctor) explain() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "explain ADDRESS | NETWORK | USER-AGENT | URL | REQUEST | CLASS KEY",
		Short: "Explain in plain words what happens to a client, a page or a request, and why",
		Long: `Explain what is happening right now to an address, a network, a User-Agent, a page (given by its
path, its URL, or its shape as shown by top) or a single request, and why. The explanation shows
the debt, the workers held, the evidence about the client, the estimated cost, the place in the
queue, and what would change the situation. Given a class and a key from the tables, print the
numbers of that account. A level below 0 is a debt. Levels and usage are in CPU-seconds, and
times are in seconds.`,
		Example: `  tempomat-doctor explain 203.0.113.9
  tempomat-doctor explain 203.0.113.0/24
  tempomat-doctor explain '/index.php?title=Special:Search'
  tempomat-doctor explain googlebot
  tempomat-doctor explain slash32 203.0.113.9
  tempomat-doctor explain 5f0c9a1e     the id of a request, from its error page, its X-Request-Id header or the log`,
		Args:              daemon.Arguments(1, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return d.key(c.Context(), args[0], args[1], document)
			}
			var reply api.ExplainReply
			return d.answer(c.Context(), d.fleet, "/v1/explain", url.Values{"of": {args[0]}}, document, &reply, func() {
				d.out.WriteString(view.Explanation(&reply, d.screen().width))
			})
		},
	}
	asJSON(c, &document)
	return c
}

// key prints the numbers of one account.
func (d *doctor) key(ctx context.Context, class, id string, document bool) error {
	var reply api.KeyReply
	return d.answer(ctx, d.fleet, "/v1/key", url.Values{"class": {class}, "id": {id}}, document, &reply, func() {
		var p view.Pairs
		row, _ := json.Marshal(reply.Row) // numbers and texts
		var tree any
		if json.Unmarshal(row, &tree) == nil {
			addTree(&p, "", tree)
		}
		p.Print(&d.out)
	})
}
