package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

// What tempomat-master tells, as far as it is shown. The master's own types would
// bring ZeroMQ into the doctor.
type (
	masterReply struct {
		Release         string  `json:"release"`
		Uptime          float64 `json:"uptime"` // seconds
		Reloads         uint64  `json:"reloads"`
		ReloadsRejected uint64  `json:"reloadsRejected"`
		Unsaved         int     `json:"unsaved"`
		Lost            uint64  `json:"lost"`
		Counts          struct {
			Malformed     map[string]uint64 `json:"malformed"`
			UnknownDomain uint64            `json:"unknownDomain"`
			Resyncs       uint64            `json:"resyncs"`
			Overload      uint64            `json:"overload"`
			Late          uint64            `json:"late"`
		} `json:"counts"`
		Domains []domainReply `json:"domains"`
	}
	domainReply struct {
		Name        string   `json:"name"`
		Rules       []string `json:"rules"`
		Identifiers int      `json:"identifiers"`
		Gatekeepers int      `json:"gatekeepers"`
		Counts      struct {
			Accepted  uint64 `json:"accepted"`
			Delayed   uint64 `json:"delayed"`
			Rejected  uint64 `json:"rejected"`
			Throttled uint64 `json:"throttled"`
			Skewed    uint64 `json:"skewed"`
			NoCost    uint64 `json:"noCost"`
			Evicted   uint64 `json:"evicted"`
		} `json:"counts"`
	}
	identifiersReply struct {
		Domain string `json:"domain"`
		Rows   []struct {
			Identifier string  `json:"identifier"`
			Wait       float64 `json:"wait"`  // seconds
			Until      int64   `json:"until"` // milliseconds since 1970
		} `json:"rows"`
	}
)

// masterChoice is what the flags of master choose.
type masterChoice struct {
	limit int
	over  time.Duration // how long rates are measured
	json  bool
}

// master shows how a Smockron master stands, or who waits in one of its domains.
func (d *doctor) master() *cobra.Command {
	var ask masterChoice
	c := &cobra.Command{
		Use:   "master [DOMAIN]",
		Short: "Show a tempomat-master: its domains, or who waits longest in one of them",
		Long: `Show how a tempomat-master stands and what it knows of each domain:

  Msg/s      accounting that it lately took in, per second
  Accepted, Delayed, Rejected   what that was, since the master began
  Throttled  orders to wait that it made
  Known      identifiers that it remembers
  Gates      gatekeepers that listen to it: the sidecars
  Domain     the name, and its rules

With a DOMAIN, the identifiers that wait longest, and when each may ask again.`,
		Example: `  tempomat-doctor master
  tempomat-doctor master site.slash32 --limit 100`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return d.waiting(c.Context(), args[0], ask)
			}
			return d.domains(c.Context(), ask)
		},
	}
	f := c.Flags()
	f.IntVar(&ask.limit, "limit", rowsOfOne, "most identifiers, with a DOMAIN")
	f.DurationVar(&ask.over, "over", time.Second, "how long rates are measured; 0: not at all")
	f.BoolVar(&ask.json, "json", false, "the admin API's document instead of tables")
	return c
}

// domains shows how the master stands. Rates are what changed between two looks.
func (d *doctor) domains(ctx context.Context, ask masterChoice) error {
	if ask.over < 0 || ask.over > time.Minute {
		return errors.New("over: must be from 0s to 1m")
	}
	const path = "/v1/master"
	c := d.masterClient()
	if ask.json {
		body, err := c.fetch(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(d.stdout, harmless.JSON(body))
		return err
	}
	var before, now masterReply
	if err := c.get(ctx, path, nil, &now); err != nil {
		return err
	}
	if ask.over > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(ask.over):
		}
		before, now = now, masterReply{}
		if err := c.get(ctx, path, nil, &now); err != nil {
			return err
		}
	}
	var out strings.Builder
	now.print(&out)
	now.table(before).print(&out, screenOf(d.stdout, d.env).width)
	_, err := fmt.Fprint(d.stdout, out.String())
	return err
}

// print prints what is of no domain.
func (m *masterReply) print(w *strings.Builder) {
	of := func(count func(domainReply) uint64) map[string]uint64 {
		all := make(map[string]uint64)
		for _, d := range m.Domains {
			all[d.Name] = count(d)
		}
		return all
	}
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "release\t%s\n", harmless.Text(m.Release))
	fmt.Fprintf(out, "uptime\t%s\n", time.Duration(m.Uptime)*time.Second)
	fmt.Fprintf(out, "reloads\t%d, and %d rejected\n", m.Reloads, m.ReloadsRejected)
	fmt.Fprintf(out, "overload\t%d messages dropped\n", m.Counts.Overload)
	fmt.Fprintf(out, "malformed\t%s\n", tally(m.Counts.Malformed))
	fmt.Fprintf(out, "unknown domain\t%d\n", m.Counts.UnknownDomain)
	fmt.Fprintf(out, "skewed\t%s\n", tally(of(func(d domainReply) uint64 { return d.Counts.Skewed })))
	fmt.Fprintf(out, "without cost\t%s\n", tally(of(func(d domainReply) uint64 { return d.Counts.NoCost })))
	fmt.Fprintf(out, "evicted\t%s\n", tally(of(func(d domainReply) uint64 { return d.Counts.Evicted })))
	fmt.Fprintf(out, "late orders\t%d\n", m.Counts.Late)
	fmt.Fprintf(out, "resyncs\t%d\n", m.Counts.Resyncs)
	fmt.Fprintf(out, "store\t%d unsaved, %d lost\n", m.Unsaved, m.Lost)
	_ = out.Flush() // a Builder takes all
	w.WriteByte('\n')
}

// tally prints what is more than none, by name.
func tally(counts map[string]uint64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			all = append(all, fmt.Sprintf("%s %d", harmless.Text(name), counts[name]))
		}
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}

// table is a line for each domain. Before is an earlier look, for the rates.
func (m *masterReply) table(before masterReply) grid {
	g := grid{title: fmt.Sprintf("domains  %d", len(m.Domains))}
	g.add("Msg/s", "Accepted", "Delayed", "Rejected", "Throttled", "Known", "Gates", "Domain")
	passed := m.Uptime - before.Uptime
	for _, d := range m.Domains {
		rate := "-"
		for _, b := range before.Domains {
			if b.Name == d.Name && passed > 0 && d.messages() >= b.messages() { // else it is another master by now
				rate = figures.Decimals(float64(d.messages()-b.messages())/passed, 2)
			}
		}
		name := harmless.Text(d.Name)
		if len(d.Rules) > 0 {
			name += "  " + harmless.Text(strings.Join(d.Rules, "; "))
		} else {
			name += "  no rules: only counted"
		}
		count := func(n uint64) string { return strconv.FormatUint(n, 10) }
		g.add(rate, count(d.Counts.Accepted), count(d.Counts.Delayed), count(d.Counts.Rejected), count(d.Counts.Throttled),
			strconv.Itoa(d.Identifiers), strconv.Itoa(d.Gatekeepers), name)
	}
	return g
}

func (d *domainReply) messages() uint64 {
	return d.Counts.Accepted + d.Counts.Delayed + d.Counts.Rejected
}

// waiting shows who waits longest in a domain.
func (d *doctor) waiting(ctx context.Context, domain string, ask masterChoice) error {
	const path = "/v1/identifiers"
	query := url.Values{"domain": {domain}, "limit": {strconv.Itoa(ask.limit)}}
	c := d.masterClient()
	if ask.json {
		body, err := c.fetch(ctx, http.MethodGet, path, query)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(d.stdout, harmless.JSON(body))
		return err
	}
	var r identifiersReply
	if err := c.get(ctx, path, query, &r); err != nil {
		return err
	}
	g := grid{title: harmless.Text(r.Domain) + "  who waits longest"}
	g.add("Wait[s]", "Next allowed (UTC)", "Identifier")
	for _, row := range r.Rows {
		next := "at once"
		if row.Wait > 0 {
			next = time.UnixMilli(row.Until).UTC().Format("2006-01-02 15:04:05.000")
		}
		g.add(figures.Decimals(row.Wait, 2), next, harmless.Text(row.Identifier))
	}
	var out strings.Builder
	g.print(&out, screenOf(d.stdout, d.env).width)
	_, err := fmt.Fprint(d.stdout, out.String())
	return err
}
