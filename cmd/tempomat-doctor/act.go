package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-doctor/internal/view"
	"tempomat/proxy/admin/api"
)

// forgive makes the command that cancels the debt of a key.
func (d *doctor) forgive() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "forgive CLASS KEY",
		Short: "Cancel a key's debt",
		Long: `Cancel a key's debt. Its client is then no longer ahead of its share. Running requests are still
charged. The command changes only the instances that it asks. The proxy logs the change and the
user who made it.`,
		Example:           "  tempomat-doctor forgive slash32 203.0.113.9",
		Args:              daemon.Arguments(2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			return d.act(c.Context(), "/v1/forgive", api.ActRequest{Class: args[0], Key: args[1]}, document)
		},
	}
	asJSON(c, &document)
	return c
}

// pin makes the command that gives a client a standing for some time.
func (d *doctor) pin() *cobra.Command {
	var document, off bool
	var standing float64
	var hold time.Duration
	c := &cobra.Command{
		Use:   "pin [CLASS KEY]",
		Short: "Multiply a client's share for a limited time, or show the current pins",
		Long: `Multiply the share of a key's clients for a limited time, whatever the proxy knows about them.
With a factor of 1 or more, they count as known clients. Pins survive a restart. The proxy logs
each pin and the user who set it. Without arguments, show the current pins.`,
		Example: `  tempomat-doctor pin
  tempomat-doctor pin slash32 203.0.113.9 --standing 8 --for 1h
  tempomat-doctor pin slash32 203.0.113.9 --off`,
		Args:              daemon.Arguments(0, 2),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				var reply api.PinsReply
				return d.answer(c.Context(), d.fleet, "/v1/pins", nil, document, &reply, func() { d.printPins(reply.Pins) })
			}
			a := api.ActRequest{Class: args[0], Key: args[1]}
			switch {
			case off && (c.Flags().Changed("standing") || c.Flags().Changed("for")):
				return errors.New("--off removes a pin and can't be combined with --standing or --for")
			case !off && standing == 0:
				return errors.New("--standing: 0 is not allowed; use 0.5 to 8, or --off to remove a pin")
			case !off:
				a.Standing, a.Seconds = standing, hold.Seconds()
			}
			return d.act(c.Context(), "/v1/pin", a, document)
		},
	}
	c.Flags().Float64Var(&standing, "standing", 8, "factor for the key's share, 0.5 to 8")
	c.Flags().DurationVar(&hold, "for", time.Hour, "how long the pin lasts, up to 168h")
	c.Flags().BoolVar(&off, "off", false, "remove the pin")
	asJSON(c, &document)
	return c
}

// printPins prints the current pins.
func (d *doctor) printPins(pins []api.PinRow) {
	if len(pins) == 0 {
		fmt.Fprintln(&d.out, "No client is pinned.")
		return
	}
	t := view.NewTable("pins", "Standing", "Left[s]", "Class", "Key")
	for _, p := range pins {
		if p.Instance != "" {
			p.Key += "  (at " + p.Instance + ")"
		}
		t.Add(view.Decimals(p.Standing, 2), view.Decimals(p.Left, 0), p.Class, p.Key)
	}
	t.Print(&d.out, d.screen().width)
}

// act sends a change to all instances, and prints what each instance did.
func (d *doctor) act(ctx context.Context, path string, a api.ActRequest, document bool) error {
	f, err := d.fleet(ctx)
	if err != nil {
		return err
	}
	answers, err := f.ask(ctx, http.MethodPost, path, nil, a)
	if err != nil {
		return err
	}
	if document {
		return d.printDocuments(f, answers)
	}
	done, err := f.said(path, answers)
	if err != nil {
		return err
	}
	for _, what := range done {
		fmt.Fprintln(&d.out, view.Text(what))
	}
	return nil
}

// act sends a change to all instances, and returns sentences that say what each instance did.
func (f *fleet) act(ctx context.Context, path string, a api.ActRequest) ([]string, error) {
	answers, err := f.ask(ctx, http.MethodPost, path, nil, a)
	if err != nil {
		return nil, err
	}
	return f.said(path, answers)
}

// said returns sentences that say what the instances did. Instances that did the same share one sentence.
func (f *fleet) said(path string, answers []answer) (sentences []string, err error) {
	all, err := understood[api.ActReply](path, answers)
	if err != nil {
		return nil, err
	}
	by := make(map[string][]string) // the names of the instances, by what they did
	for i := range all {
		by[all[i].Done] = append(by[all[i].Done], answers[i].from.name)
	}
	for i := range all {
		what := all[i].Done
		if by[what][0] != answers[i].from.name {
			continue // already there, with the first of these instances
		}
		if len(f.all) > 1 {
			what = api.Names(by[what]) + ": " + what
		}
		sentences = append(sentences, what)
	}
	return sentences, nil
}

// reload makes the command that has the proxy read its configuration again.
func (d *doctor) reload() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make the proxy reload its configuration, and print any errors",
		Long: `Make the proxy reload its configuration. If the file has errors, the command prints them and exits
with status 1, and the running configuration stays in use. Otherwise, the command lists the changed
settings that need a restart. With --socket, it can also reload a tempomat-master.`,
		Example: `  tempomat-proxy -check && tempomat-doctor reload
  tempomat-doctor reload --socket /run/tempomat-master/admin.sock`,
		Args: daemon.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := d.fleet(c.Context())
			if err == nil && len(f.all) > 1 {
				err = errOneSocket
			}
			if err != nil {
				return err
			}
			body, err := f.all[0].send(c.Context(), http.MethodPost, "/v1/reload", nil, nil)
			if err != nil {
				return fmt.Errorf("the configuration was not reloaded:\n%w", err)
			}
			fmt.Fprintln(&d.out, "reloaded")
			var reply api.ReloadReply
			if json.Unmarshal(body, &reply) == nil && len(reply.Restart) > 0 { // older releases send no list
				fmt.Fprintln(&d.out, "These settings need a restart: "+view.Text(strings.Join(reply.Restart, ", ")))
			}
			return nil
		},
	}
}
