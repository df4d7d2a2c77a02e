package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
)

// The parts of tempomat-master's answers that tables show. The master's own types aren't used, because they would
// make the doctor depend on ZeroMQ.
type (
	masterReply struct {
		all     map[string]any // everything else
		Domains []struct {
			Name        string   `json:"name"`
			Rules       []string `json:"rules"`
			Identifiers int      `json:"identifiers"`
			Gatekeepers int      `json:"gatekeepers"`
			Counts      struct {
				Accepted  int `json:"accepted"`
				Delayed   int `json:"delayed"`
				Rejected  int `json:"rejected"`
				Throttled int `json:"throttled"`
				Skewed    int `json:"skewed"`
				NoCost    int `json:"noCost"`
				Evicted   int `json:"evicted"`
			} `json:"counts"`
		} `json:"domains"`
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

// master makes the command that shows the state of a Smockron master, or the identifiers that wait in one of
// its domains.
func (d *doctor) master() *cobra.Command {
	limit, document := rowsOfOne, false
	c := &cobra.Command{
		Use:   "master [DOMAIN]",
		Short: "Show a tempomat-master: its domains, or the identifiers that wait longest in one of them",
		Long: `Show the counters of a tempomat-master and the state of each domain:

  Accepted, Delayed, Rejected   requests that gatekeepers reported since the master started
  Throttled  orders to wait that the master sent
  Known      identifiers that the master remembers
  Gates      gatekeepers (instances) that listen to the master
  Domain     the domain's name and rules

With a DOMAIN, show the identifiers that wait longest, and when each may send its next request.`,
		Example: `  tempomat-doctor master
  tempomat-doctor master site.slash32 --limit 100`,
		Args: daemon.Arguments(0, 1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				return d.waiting(c.Context(), args[0], limit, document)
			}
			var reply masterReply
			return d.answer(c.Context(), d.ofMaster, "/v1/master", nil, document, &reply, func() { d.printMaster(&reply) })
		},
	}
	c.Flags().IntVar(&limit, "limit", rowsOfOne, "number of identifiers to show, with a DOMAIN")
	asJSON(c, &document)
	return c
}

// UnmarshalJSON decodes the domains for their table, and all other fields into a map.
func (m *masterReply) UnmarshalJSON(document []byte) error {
	type domains masterReply
	err := errors.Join(json.Unmarshal(document, (*domains)(m)), json.Unmarshal(document, &m.all))
	delete(m.all, "domains")
	delete(m.all, "version")
	return err
}

// printMaster prints the master's counters, and a line for each domain.
func (d *doctor) printMaster(m *masterReply) {
	p := &view.Pairs{}
	if seconds, ok := m.all["uptime"].(float64); ok {
		m.all["uptime"] = (time.Duration(seconds) * time.Second).String()
	}
	addTree(p, "", m.all)
	p.Print(&d.out)
	fmt.Fprintln(&d.out)
	t := view.NewTable(fmt.Sprintf("domains  %d", len(m.Domains)), "Accepted", "Delayed", "Rejected", "Throttled", "Known", "Gates", "Domain")
	for _, domain := range m.Domains {
		name := domain.Name + "  no rules: only counted"
		if len(domain.Rules) > 0 {
			name = domain.Name + "  " + strings.Join(domain.Rules, "; ")
		}
		c := domain.Counts
		if c.Skewed+c.NoCost+c.Evicted > 0 {
			name += fmt.Sprintf(" (%d messages with a wrong time, %d without a cost; %d identifiers forgotten because there were too many)", c.Skewed, c.NoCost, c.Evicted)
		}
		t.Add(strconv.Itoa(c.Accepted), strconv.Itoa(c.Delayed), strconv.Itoa(c.Rejected), strconv.Itoa(c.Throttled),
			strconv.Itoa(domain.Identifiers), strconv.Itoa(domain.Gatekeepers), name)
	}
	t.Print(&d.out, d.screen().width)
}

// waiting prints the identifiers of a domain that must wait longest.
func (d *doctor) waiting(ctx context.Context, domain string, limit int, document bool) error {
	var r identifiersReply
	query := url.Values{"domain": {domain}, "limit": {strconv.Itoa(limit)}}
	return d.answer(ctx, d.ofMaster, "/v1/identifiers", query, document, &r, func() {
		t := view.NewTable(r.Domain+"  the longest waits", "Wait[s]", "Next allowed (UTC)", "Identifier")
		for _, row := range r.Rows {
			next := "at once"
			if row.Wait > 0 {
				next = time.UnixMilli(row.Until).UTC().Format("2006-01-02 15:04:05.000")
			}
			t.Add(view.Decimals(row.Wait, 2), next, row.Identifier)
		}
		t.Print(&d.out, d.screen().width)
	})
}
