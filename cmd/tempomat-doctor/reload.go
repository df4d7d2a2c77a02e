package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// reload has the proxy read its configuration again.
func (d *doctor) reload() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the proxy read its configuration again, and say what is wrong with it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := d.client().fetch(c.Context(), http.MethodPost, "/v1/reload", nil); err != nil {
				return fmt.Errorf("not reloaded:\n%w", err)
			}
			_, err := fmt.Fprintln(d.stdout, "reloaded")
			return err
		},
	}
}
