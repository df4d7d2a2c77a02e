// Command tempomat-master tells gatekeepers which identifiers have to wait: tempomat-proxy
// sidecars, and the Node and nginx gatekeepers of Smockron.
//
// The configuration is ours or the first Smockron master's. SIGHUP reads it again,
// SIGTERM and SIGINT end it, when the store has what is known. The exit status is 0
// after a signal or a valid configuration, 1 after a failure, 2 for a wrong command
// line.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
)

// version is set by the build.
var version = "dev"

// usualFile is read if none is named.
const usualFile = "/etc/tempomat/master.yaml"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	check, file := false, ""
	root := &cobra.Command{
		Use:     "tempomat-master",
		Short:   "Tell Smockron gatekeepers which clients have to wait",
		Version: version,
		Args:    daemon.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := config.LoadMaster(file)
			if err != nil {
				return err
			}
			if check {
				fmt.Fprintf(stdout, "%s is valid\n", file)
				settings.Describe(stdout)
				return nil
			}
			output := daemon.NewOutput(stderr)
			defer output.Close()
			return newServer(settings, file, output).run(c.Context())
		},
	}
	root.Flags().StringVar(&file, "config", usualFile, "configuration `file`")
	root.Flags().BoolVar(&check, "check", false, "read the configuration, print what it means, and do nothing else")
	return daemon.Status(daemon.Execute(ctx, root, args, stdout, stderr), stderr)
}
