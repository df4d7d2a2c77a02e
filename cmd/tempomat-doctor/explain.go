package main

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// explain tells what is known of a client, a page or a request, and why.
func (d *doctor) explain() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "explain ADDRESS | NETWORK | USER-AGENT | URL | REQUEST",
		Short: "Explain in plain words what happens to a client, a page or a request, and why",
		Long: `Explain what happens at this moment to an address, a network, a kind of program, a page
(by its path, its URL, or its shape as top shows it) or a single request, and why: what
it owes, what it holds, what evidence there is for it, how its guess comes about, its
place in the queue, and what would change that.`,
		Example: `  tempomat-doctor explain 203.0.113.9
  tempomat-doctor explain 203.0.113.0/24
  tempomat-doctor explain '/index.php?title=Special:Search'
  tempomat-doctor explain googlebot
  tempomat-doctor explain 5f0c9a1e     the id of a request, from its error page, its header X-Request-Id or the log`,
		Args: takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			query := url.Values{"of": {args[0]}}
			if document {
				return d.raw(c.Context(), "/v1/explain", query)
			}
			var reply api.ExplainReply
			if err := d.client().get(c.Context(), "/v1/explain", query, &reply); err != nil {
				return err
			}
			var out strings.Builder
			printExplanation(&out, &reply, screenOf(d.stdout, d.env).width)
			_, err := d.stdout.Write([]byte(out.String()))
			return err
		},
	}
	asJSON(c.Flags(), &document)
	return c
}

// printExplanation prints one; width 0 is without limit.
func printExplanation(out *strings.Builder, e *api.ExplainReply, width int) {
	fmt.Fprintf(out, "%s (%s)\n\n", harmless.Text(e.Of), harmless.Text(e.Kind))
	paragraph(out, "", e.Summary, width)
	if len(e.Advice) > 0 {
		out.WriteString("\nWhat would change it\n")
		for _, a := range e.Advice {
			paragraph(out, "  ", a, width)
		}
	}
	for _, s := range e.Sections {
		fmt.Fprintf(out, "\n%s\n", harmless.Text(s.Title))
		for _, f := range s.Facts {
			paragraph(out, "  ", f.Name+": "+f.Value, width)
			if f.Means != "" {
				paragraph(out, "      ", f.Means, width)
			}
		}
	}
	if len(e.Waiting) > 0 {
		out.WriteByte('\n')
		printQueue(out, e.Waiting, max(e.Waits, len(e.Waiting)), width)
	}
	if len(e.Recent) > 0 {
		out.WriteByte('\n')
		printRecent(out, e.Recent, width)
	}
}

// paragraph prints a text in lines of a width, all of them indented.
func paragraph(out *strings.Builder, indent, text string, width int) {
	if width == 0 {
		width = 100
	}
	line, left := indent, max(20, width)-1
	for word := range strings.FieldsSeq(harmless.Text(text)) {
		if len(line)+1+len(word) > left && line != indent {
			fmt.Fprintln(out, line)
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	fmt.Fprintln(out, line)
}

// clientsText is whose requests a row stands for.
func clientsText(r *api.VerdictRow) string {
	if r.Clients > 1 {
		return fmt.Sprintf("%d addresses", r.Clients)
	}
	return r.Client
}

// printRecent prints what became of requests.
func printRecent(out *strings.Builder, rows []api.VerdictRow, width int) {
	g := grid{title: "recently, requests that ended alike in one row"}
	g.add("Last[UTC]", "Times", "Waited[s]", "Status", "Outcome", "Client", "Last request, and below the reason")
	for _, r := range rows {
		at := time.UnixMilli(int64(r.At * 1000)).UTC().Format("15:04:05")
		reason := r.Reason
		if r.Class != "" {
			reason += " of " + r.Class + " " + r.Key
		}
		g.add(at, fmt.Sprint(max(1, r.Times)), figures.Decimals(r.Waited, 2), fmt.Sprint(r.Status), harmless.Text(r.Outcome), harmless.Text(clientsText(&r)),
			harmless.Text(r.Method+" "+r.URL))
		g.note(harmless.Text(reason))
	}
	g.print(out, width)
}
