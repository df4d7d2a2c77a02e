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
		Long: `Have the proxy read its configuration again. If something is wrong with it, that is
printed, all stays as it was, and the exit status is 1. Of a master with its --socket.`,
		Example: `  tempomat-doctor check /etc/tempomat/tempomat.yaml && tempomat-doctor reload
  tempomat-doctor reload --socket /run/tempomat-master/admin.sock`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := d.client().fetch(c.Context(), http.MethodPost, "/v1/reload", nil); err != nil {
				return fmt.Errorf("not reloaded:\n%w", err)
			}
			_, err := fmt.Fprintln(d.stdout, "reloaded")
			return err
		},
	}
}
