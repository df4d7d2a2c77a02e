package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// weekHours is the longest history.
const weekHours = 168

// robots is the command that shows the accounts of robots.
func (d *doctor) robots() *cobra.Command {
	asked := false
	c := &cobra.Command{
		Use:   "robots",
		Short: "Show the robots that say who they are, and what they cost",
		Long: `Show the robots that say who they are, each with all of its addresses:

  Week[s]  CPU-seconds that it cost in the last week, as far as the history goes
  Part     of what all requests cost
  Reqs     requests in that time
  Cpu[s]   CPU-seconds that it lately used, per second
  Req/s    requests that it lately made, per second
  Wait[s]  how long its latest requests were delayed, on average
  Title    its name; (others) is all together that nobody can verify, or that have no account`,
		Example: `  tempomat-doctor robots
  tempomat-doctor robots --json               as they are now`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if asked {
				return d.raw(c.Context(), "/v1/buckets", robotQuery())
			}
			return d.showRobots(c.Context())
		},
	}
	asJSON(c.Flags(), &asked)
	return c
}

func robotQuery() url.Values {
	return url.Values{"class": {config.RobotClass}, "sort": {"cpu"}, "limit": {strconv.Itoa(rowsOfOne)}}
}

// robotRow is a robot as it is shown.
type robotRow struct {
	week reportRow
	now  limiter.Row
}

func (d *doctor) showRobots(ctx context.Context) error {
	c := d.client()
	var now api.BucketsReply
	if err := c.get(ctx, "/v1/buckets", robotQuery(), &now); err != nil {
		return err
	}
	rows := make(map[string]robotRow)
	for _, r := range now.Rows {
		rows[r.ID] = robotRow{now: r}
	}
	if week := d.weekOfRobots(ctx, c); week != nil {
		for _, part := range week.Rows {
			row := rows[part.Name]
			row.week = part
			rows[part.Name] = row
		}
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(d.stdout, "No robot has said who it is yet.")
		return err
	}
	var out strings.Builder
	printRobots(&out, rows, screenOf(d.stdout, d.env).width)
	_, err := fmt.Fprint(d.stdout, out.String())
	return err
}

// weekOfRobots is what they cost in the last week; nil: nobody kept that.
func (d *doctor) weekOfRobots(ctx context.Context, c *client) *reportTable {
	var reply api.HistoryReply
	if c.get(ctx, "/v1/history", url.Values{"hours": {strconv.Itoa(weekHours)}}, &reply) != nil {
		return nil // it is off
	}
	r := sum([]api.HistoryReply{reply}, weekHours)
	if r == nil {
		return nil
	}
	for i := range r.Classes {
		if r.Classes[i].Class == config.RobotClass {
			return &r.Classes[i].reportTable
		}
	}
	return nil
}

// printRobots prints them, the dearest first.
func printRobots(out *strings.Builder, rows map[string]robotRow, width int) {
	names := make([]string, 0, len(rows))
	for name := range rows {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rows[b].week.CPU, rows[a].week.CPU), cmp.Compare(rows[b].now.CPU, rows[a].now.CPU), strings.Compare(a, b))
	})
	g := grid{title: "robots"}
	g.add("Week[s]", "Part", "Reqs", "Cpu[s]", "Req/s", "Wait[s]", "Title")
	for _, name := range names {
		r := rows[name]
		g.add(figures.Decimals(r.week.CPU, 1), fmt.Sprintf("%.1f%%", 100*r.week.Part), strconv.FormatUint(r.week.Requests, 10),
			figures.Decimals(r.now.CPU, 2), figures.Decimals(r.now.Rate, 2), figures.Decimals(r.now.Wait, 2), harmless.Text(name))
	}
	g.print(out, width)
}
