package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/config"
	"tempomat/proxy/admin/api"
)

// The hours that a report may be of.
const (
	hoursOfDay = 24
	mostHours  = 168
)

// reportChoice is what the flags of the report choose.
type reportChoice struct {
	hours, limit int
	json         bool
	sockets      []string
}

// report tells who used the server.
func (d *doctor) report() *cobra.Command {
	var ask reportChoice
	c := &cobra.Command{
		Use:   "report",
		Short: "Tell who used the server in the last day, or week",
		Long: `Tell who used the server in the last hours: what groups of clients, keys of each
class, URL shapes and URLs cost. Several sockets are several proxies, whose hours are added
up.`,
		Example: `  tempomat-doctor report                      the last day
  tempomat-doctor report --hours 168          the last week
  tempomat-doctor report --socket A --socket B   of several proxies together`,
		Args: func(c *cobra.Command, args []string) error {
			return errors.Join(takes(0)(c, args), ask.check())
		},
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := d.askHistory(c.Context(), ask)
			if err != nil {
				return err
			}
			return d.printReport(r, ask)
		},
	}
	f := c.Flags()
	f.IntVar(&ask.hours, "hours", hoursOfDay, "of how many hours, 1 to 168")
	f.IntVar(&ask.limit, "limit", rowsOfEach, "rows of each table of the text")
	asJSON(f, &ask.json)
	f.Lookup("json").Usage = "as a JSON document"
	f.StringArrayVar(&ask.sockets, "socket", nil, "the admin socket; several are added up")
	return c
}

// check tells what of the choice is not allowed.
func (ask reportChoice) check() error {
	var faults []error
	if ask.hours < 1 || ask.hours > mostHours {
		faults = append(faults, fmt.Errorf("--hours %d: must be 1 to %d", ask.hours, mostHours))
	}
	if ask.limit < 1 {
		faults = append(faults, fmt.Errorf("--limit %d: must be at least 1", ask.limit))
	}
	return errors.Join(faults...)
}

// askHistory asks all proxies, and adds up what they tell.
func (d *doctor) askHistory(ctx context.Context, ask reportChoice) (*report, error) {
	clients := []*client{d.client()}
	if len(ask.sockets) > 0 {
		clients = nil
	}
	for _, socket := range ask.sockets {
		clients = append(clients, newClient("tempomat-proxy", cmp.Or(socket, config.Default().Admin.Listen), "--socket"))
	}
	var replies []api.HistoryReply
	for _, c := range clients {
		var reply api.HistoryReply
		if err := c.get(ctx, "/v1/history", url.Values{"hours": {strconv.Itoa(ask.hours)}}, &reply); err != nil {
			return nil, err
		}
		replies = append(replies, reply)
	}
	r := sum(replies, ask.hours)
	if r == nil {
		return nil, errors.New("there is no history yet: the proxy has just begun to keep one")
	}
	return r, nil
}

// printReport prints it in the form that was chosen.
func (d *doctor) printReport(r *report, ask reportChoice) error {
	if !ask.json {
		return r.print(d.stdout, ask.limit, screenOf(d.stdout, d.env).width)
	}
	body, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintln(d.stdout, harmless.JSON(body))
	}
	return err
}

// knownHours are those of which something is known.
func (r *report) knownHours() (known []reportHour) {
	return slices.DeleteFunc(slices.Clone(r.ByHour), func(h reportHour) bool { return !h.Known })
}
