package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// explain tells what is known of a client, a page or a request, and why.
func (d *doctor) explain() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "explain ADDRESS | NETWORK | USER-AGENT | URL | REQUEST | CLASS KEY",
		Short: "Explain in plain words what happens to a client, a page or a request, and why",
		Long: `Explain what happens at this moment to an address, a network, a kind of program, a page
(by its path, its URL, or its shape as top shows it) or a single request, and why: what
it owes, what it holds, what evidence there is for it, how its guess comes about, its
place in the queue, and what would change that. With a class and a key as the tables show
them, it shows the numbers of that one account.`,
		Example: `  tempomat-doctor explain 203.0.113.9
  tempomat-doctor explain 203.0.113.0/24
  tempomat-doctor explain '/index.php?title=Special:Search'
  tempomat-doctor explain googlebot
  tempomat-doctor explain slash32 203.0.113.9
  tempomat-doctor explain 5f0c9a1e     the id of a request, from its error page, its header X-Request-Id or the log`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 2 { //nolint:mnd // a class and a key
				return nil
			}
			return takes(1)(c, args)
		},
		ValidArgsFunction: d.classes,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return d.key(c.Context(), args[0], args[1], document)
			}
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

// key prints the numbers of one account.
func (d *doctor) key(ctx context.Context, class, id string, document bool) error {
	query := url.Values{"class": {class}, "id": {id}}
	if document {
		return d.raw(ctx, "/v1/key", query)
	}
	var reply api.KeyReply
	if err := d.client().get(ctx, "/v1/key", query, &reply); err != nil {
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
}

// printClient shows how a client stands at the gate.
func printClient(out io.Writer, c limiter.ClientRow) {
	as := "a stranger"
	if c.Known {
		as = "a known client"
	}
	fmt.Fprintf(out, "counts as\t%s\n", as)
	fmt.Fprintf(out, "standing\t%g times its share\n", c.Standing)
	fmt.Fprintf(out, "lead\t%.2f CPU-s ahead of its turn\n", c.Lead)
	fmt.Fprintf(out, "lanes\t%d light, %d heavy, %d that hold a worker wait\n", c.Light, c.Heavy, c.Waits)
	if c.Light+c.Heavy+c.Waits > 0 {
		fmt.Fprintf(out, "rank\t%.1f beyond the clock\n", c.Rank)
	}
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
