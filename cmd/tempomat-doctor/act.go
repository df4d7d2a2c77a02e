package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// forgive takes the debt of a key away.
func (d *doctor) forgive() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "forgive CLASS KEY",
		Short: "Take a key's debt away",
		Long: `Take a key's debt away, and how far its client is ahead of its share. Requests that run
are still charged with what they cost. Other sidecars are not told. It is written to
the proxy's log, with who asked.`,
		Example:           "  tempomat-doctor forgive slash32 203.0.113.9",
		Args:              takes(2),
		ValidArgsFunction: d.completeClass,
		RunE: func(c *cobra.Command, args []string) error {
			return d.act(c.Context(), "/v1/forgive", api.ActRequest{Class: args[0], Key: args[1]}, document)
		},
	}
	asJSON(c.Flags(), &document)
	return c
}

// pin gives a client a standing for a time.
func (d *doctor) pin() *cobra.Command {
	var document, off bool
	var standing float64
	var hold time.Duration
	c := &cobra.Command{
		Use:   "pin CLASS KEY",
		Short: "Multiply a client's share for a time",
		Long: `Multiply the share of the clients with a key for a time, whatever evidence there is for
them. With 1 or more they are no strangers. It holds over a restart, and is written
to the proxy's log, with who asked. tempomat-doctor pins shows those in force.`,
		Example: `  tempomat-doctor pin slash32 203.0.113.9 --standing 8 --for 1h
  tempomat-doctor pin slash32 203.0.113.9 --off`,
		Args:              takes(2),
		ValidArgsFunction: d.completeClass,
		RunE: func(c *cobra.Command, args []string) error {
			a := api.ActRequest{Class: args[0], Key: args[1]}
			switch {
			case off && (c.Flags().Changed("standing") || c.Flags().Changed("for")):
				return errors.New("--off takes a pin back: it goes with neither --standing nor --for")
			case !off && standing == 0:
				return errors.New("--standing: 0 is not allowed; allowed is 0.5 to 8 (to take a pin back: --off)")
			case !off:
				a.Standing, a.Seconds = standing, hold.Seconds()
			}
			return d.act(c.Context(), "/v1/pin", a, document)
		},
	}
	c.Flags().Float64Var(&standing, "standing", 8, "what its share is multiplied by, 0.5 to 8")
	c.Flags().DurationVar(&hold, "for", time.Hour, "for how long, up to 168h")
	c.Flags().BoolVar(&off, "off", false, "take the pin back")
	asJSON(c.Flags(), &document)
	return c
}

// pins shows those in force.
func (d *doctor) pins() *cobra.Command {
	var document bool
	c := &cobra.Command{
		Use:   "pins",
		Short: "Show the clients that somebody gave a standing",
		Long: `Show the clients that somebody gave a standing with tempomat-doctor pin, and for how long
that still holds.`,
		Example: "  tempomat-doctor pins",
		Args:    takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if document {
				return d.raw(c.Context(), "/v1/pins", nil)
			}
			var reply api.PinsReply
			if err := d.client().get(c.Context(), "/v1/pins", nil, &reply); err != nil {
				return err
			}
			if len(reply.Pins) == 0 {
				_, err := fmt.Fprintln(d.stdout, "nobody is pinned")
				return err
			}
			g := grid{title: "pins"}
			g.add("Standing", "Left[s]", "Class", "Key")
			for _, p := range reply.Pins {
				g.add(figures.Decimals(p.Standing, 2), figures.Decimals(p.Left, 0), harmless.Text(p.Class), harmless.Text(p.Key))
			}
			g.print(d.stdout, screenOf(d.stdout, d.env).width)
			return nil
		},
	}
	asJSON(c.Flags(), &document)
	return c
}

// act has something done and says what was.
func (d *doctor) act(ctx context.Context, path string, a api.ActRequest, document bool) error {
	body, err := d.client().post(ctx, path, a)
	if err != nil {
		return err
	}
	if document {
		_, err = fmt.Fprintln(d.stdout, harmless.JSON(body))
		return err
	}
	var reply api.ActReply
	if err := understand(path, body, &reply); err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.stdout, harmless.Text(reply.Done))
	return err
}

// completeClass completes the first argument, a class.
func (d *doctor) completeClass(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var known api.ClassesReply
	if len(args) > 0 || d.client().get(c.Context(), "/v1/classes", nil, &known) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, class := range known.Classes {
		names = append(names, class.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
