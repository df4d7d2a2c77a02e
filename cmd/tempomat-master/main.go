// Command tempomat-master decides, for all gatekeepers of a site, how long clients must wait. Gatekeepers are
// tempomat-proxy instances, and the Node and nginx gatekeepers of Smockron.
//
// It reads its own configuration or that of the original Smockron master. SIGHUP makes it reload the file. On
// SIGTERM and SIGINT, it saves its state and ends. The exit status is 0 after a signal or a valid
// configuration, 1 after a failure, and 2 for an invalid command line.
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

// usualFile is the default of -config.
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
		Short:   "Run a Smockron master, which orders gatekeepers to delay clients",
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
	root.Flags().BoolVar(&check, "check", false, "check the configuration, print what it means, and exit")
	return daemon.Status(daemon.Execute(ctx, root, args, stdout, stderr), stderr)
}
