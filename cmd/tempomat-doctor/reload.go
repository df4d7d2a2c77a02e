package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/config"
	"tempomat/proxy/admin/api"
)

// reloadable is the program whose socket is named: it may be a master's.
func (d *doctor) reloadable() *client {
	switch strings.TrimPrefix(d.socket, "unix:") {
	case "":
		return d.client()
	case strings.TrimPrefix(config.DefaultMaster().Admin.Listen, "unix:"):
		return d.masterClient()
	}
	return newClient("tempomat-proxy or tempomat-master", d.socket, "--socket")
}

// reload has the proxy read its configuration again.
func (d *doctor) reload() *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Have the proxy read its configuration again, and say what is wrong with it",
		Long: `Have the proxy read its configuration again. If something is wrong with it, that is
printed, all stays as it was, and the exit status is 1. What only a restart can put in force
is named. Of a master with its --socket.`,
		Example: `  tempomat-doctor check /etc/tempomat/tempomat.yaml && tempomat-doctor reload
  tempomat-doctor reload --socket /run/tempomat-master/admin.sock`,
		Args: takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			body, err := d.reloadable().fetch(c.Context(), http.MethodPost, "/v1/reload", nil)
			if err != nil {
				return fmt.Errorf("not reloaded:\n%w", err)
			}
			text := "reloaded\n"
			var reply api.ReloadReply
			if json.Unmarshal(body, &reply) == nil && len(reply.Restart) > 0 { // an older one tells nothing
				text += "waits for a restart: " + harmless.Text(strings.Join(reply.Restart, ", ")) + "\n"
			}
			_, err = io.WriteString(d.stdout, text)
			return err
		},
	}
}
