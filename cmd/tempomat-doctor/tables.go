package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// The most rows that are shown unless --limit says otherwise.
const (
	rowsOfEach = 10 // when all classes are
	rowsOfOne  = 50
)

// choice is what the flags of the table choose.
type choice struct {
	bucket, sort string
	limit        string // "": what fits
	json         bool
}

// tables is the command without a name: the tables of the classes.
func (d *doctor) tables() *cobra.Command {
	var ask choice
	limit := 0
	c := &cobra.Command{
		Use:   "tempomat-doctor",
		Short: "Show what tempomat-proxy knows of its clients",
		Long: `Show what tempomat-proxy knows of its clients, a table for each class:

  Wait[s]  how long its latest requests were delayed, on average: for debt, or at the gate
  Cpu[s]   CPU-seconds that it lately used, per second
  Req/s    requests that it lately made, per second
  Last[s]  how long ago it was last seen
  Title    the key: an address, a network, a User-Agent family, …

top shows all of it live.`,
		Example: `  tempomat-doctor --sort cpu
  tempomat-doctor --bucket slash24 --limit 100
  watch -n 1 tempomat-doctor`,
		Version: version,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := goneCommand(args[0]); err != nil {
					return err
				}
			}
			return cobra.NoArgs(c, args)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("limit") {
				ask.limit = strconv.Itoa(limit)
			}
			if ask.json {
				return d.raw(c.Context(), "/v1/buckets", ask.query(rowsOfOne))
			}
			return d.show(c.Context(), ask)
		},
	}
	f := c.Flags()
	f.StringVar(&ask.bucket, "bucket", "", "only this `class` (also --class): slash32, Slash32, userAgent, …")
	f.StringVar(&ask.sort, "sort", "wait", "what comes first, by `column`: wait, cpu, rate, level (the deepest debt) or last (the latest)")
	f.IntVar(&limit, "limit", 0, "rows of each table (default 10, as far as the screen has room; 50 with --bucket)")
	asJSON(f, &ask.json)
	complete(c, "bucket", d.classes)
	complete(c, "sort", words("wait", "cpu", "rate", "level", "last"))
	return c
}

// asJSON is the flag that has a command print what it got.
func asJSON(f *pflag.FlagSet, p *bool) {
	f.BoolVar(p, "json", false, "the admin API's document instead of tables")
}

// raw prints one document of the admin API.
func (d *doctor) raw(ctx context.Context, path string, query url.Values) error {
	body, err := d.client().fetch(ctx, http.MethodGet, path, query)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.stdout, harmless.JSON(body))
	return err
}

// show prints the table of one class, or those of all.
func (d *doctor) show(ctx context.Context, ask choice) error {
	c := d.client()
	view := screenOf(d.stdout, d.env)
	if ask.bucket != "" {
		t, err := ask.table(ctx, c, rowsOfOne)
		if err != nil {
			return err
		}
		return printTables(d.stdout, []table{t}, view.width)
	}
	var known api.ClassesReply
	if err := c.get(ctx, "/v1/classes", nil, &known); err != nil {
		return err
	}
	var all []table
	for _, class := range known.Classes {
		ask.bucket = class.Name
		t, err := ask.table(ctx, c, rowsOfEach)
		if err != nil {
			return err
		}
		if t.total > 0 || class.Name != config.SessionClass && class.Name != config.RobotClass { // which nobody configured
			all = append(all, t)
		}
	}
	if ask.limit == "" {
		fit(all, view.height)
	}
	return printTables(d.stdout, all, view.width)
}

// query is the choice as parameters of /v1/buckets.
func (ask choice) query(rows int) url.Values {
	q := url.Values{"class": {ask.bucket}, "sort": {ask.sort}, "limit": {strconv.Itoa(rows)}}
	if ask.limit != "" {
		q.Set("limit", ask.limit)
	}
	return q
}

// table asks for the table of the chosen class.
func (ask choice) table(ctx context.Context, c *client, rows int) (table, error) {
	var reply api.BucketsReply
	if err := c.get(ctx, "/v1/buckets", ask.query(rows), &reply); err != nil {
		return table{}, err
	}
	return table{class: reply.Class, total: reply.Total, rows: reply.Rows}, nil
}

// table is a class as it is printed.
type table struct {
	class string
	total int
	rows  []limiter.Row
}

// printTables prints tables below one another. Width 0 is without limit.
func printTables(w io.Writer, all []table, width int) error {
	var out strings.Builder
	for i, t := range all {
		if i > 0 {
			out.WriteByte('\n')
		}
		t.print(&out, width)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// print prints one table.
func (t table) print(w io.Writer, width int) {
	count := strconv.Itoa(t.total) + " keys"
	if t.total == 1 {
		count = "1 key"
	}
	g := grid{title: harmless.Text(t.class) + "  " + count}
	g.add("Wait[s]", "Cpu[s]", "Req/s", "Last[s]", "Title")
	for _, r := range t.rows {
		g.add(figures.Decimals(r.Wait, 2), figures.Decimals(r.CPU, 2), figures.Decimals(r.Rate, 2), figures.Decimals(r.Last, 0), harmless.Text(r.ID))
	}
	g.print(w, width)
}
