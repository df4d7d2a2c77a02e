// Command tempomat-proxy is a reverse proxy in front of one backend. It charges each client for the CPU time
// of its requests, and lets no client take more than its share of the server. commandLine defines its flags
// and commands.
//
// On SIGHUP, it reads the configuration again. On SIGUSR2, it starts a new process that replaces it. On SIGTERM and
// SIGINT, it finishes running requests and ends. After SIGINT, systemd doesn't keep the sockets. The exit status is 0
// after a signal or a valid configuration, 1 after a failure, and 2 for an invalid command line.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tempomat/cmd/internal/daemon"
	"tempomat/cmd/tempomat-proxy/internal/setup"
	"tempomat/cmd/tempomat-proxy/internal/sharing"
	"tempomat/config"
	"tempomat/proxy/handover"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, stop) // a second signal ends the program without waiting for requests
	status := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// Configuration files to try, in this order, if no flag names one. The second belongs to the original
// tempomat.
const (
	usualFile    = "/etc/tempomat/tempomat.yaml"
	originalFile = "/etc/tempomat.json"
)

// run is the program. It returns the exit status.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == startCommand { // only a running proxy uses it, so the help doesn't show it
		return daemon.Status(startSuccessor(args[1:]), stderr)
	}
	replaced := false
	status := daemon.Status(daemon.Execute(ctx, commandLine(env, stdout, stderr, &replaced), args, stdout, stderr), stderr)
	if !replaced || os.Getpid() != 1 {
		return status
	}
	return outlive()
}

// commandLine defines the program's flags and commands.
func commandLine(env []string, stdout, stderr io.Writer, replaced *bool) *cobra.Command {
	var file string
	var check, verbose bool
	root := &cobra.Command{
		Use:     "tempomat-proxy",
		Short:   "Run the reverse proxy, or read its configuration",
		Version: version,
		Args: func(c *cobra.Command, args []string) error {
			if verbose && !check {
				return errors.New("-v requires -check; -version prints the version")
			}
			return cobra.NoArgs(c, args)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			source := source{file: findFile(file), env: env}
			if check {
				return source.check(c.Context(), stdout, verbose)
			}
			in, err := handover.Inherit()
			store := newFDStore()
			if in.From == nil {
				store.adopt(in.Sockets)
			}
			var cfg *config.Config
			if err == nil {
				cfg, err = source.load()
			}
			if err != nil {
				in.Close()
				store.giveUp()
				return withNextStep(err)
			}
			*replaced, err = serve(c.Context(), cfg, source, in, store, stderr)
			return err
		},
	}
	f := root.Flags()
	f.StringVar(&file, "config", "", "configuration `file` (default "+usualFile+", otherwise "+originalFile+", otherwise none)")
	f.BoolVar(&check, "check", false, "check the configuration, print what it means, and exit")
	f.BoolVarP(&verbose, "verbose", "v", false, "with -check: print every key, and what each class may use")
	root.AddCommand(setupCommand(stdout), secretCommand(stdout))
	return root
}

// secretCommand makes the commands that create, show and rotate the file of coordination.secret.
func secretCommand(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{Use: "secret", Short: "Make, show or rotate the secret that several instances share"}
	add := func(use, short string, do func(file string, now time.Time, out io.Writer) error) {
		c.AddCommand(&cobra.Command{
			Use: use + " [FILE]", Short: short, Args: cobra.MaximumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				return do(append(args, sharing.DefaultSecretFile)[0], time.Now(), stdout)
			},
		})
	}
	add("new", "Create the file with a new secret (default "+sharing.DefaultSecretFile+")", sharing.MakeSecret)
	add("show", "Print the fingerprint of the secret in the file", sharing.ShowSecret)
	add("rotate", "Replace the secret in the file; the previous one stays valid for a day", sharing.RotateSecret)
	return c
}

func setupCommand(stdout io.Writer) *cobra.Command {
	var write, undo bool
	c := &cobra.Command{
		Use: "setup", Short: setup.Summary,
		Args: func(c *cobra.Command, args []string) error {
			if write && undo {
				return errors.New("setup takes -write or -undo, not both")
			}
			return daemon.Arguments(0)(c, args)
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if err := setup.OnThisMachine(changesNothing).Do(c.Context(), write, undo, stdout); err != nil {
				return fmt.Errorf("tempomat-proxy: setup: %w", err)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&write, "write", false, "make all of the changes, or none if one fails")
	c.Flags().BoolVar(&undo, "undo", false, "undo the changes of -write")
	return c
}

// changesNothing reports whether a configuration file sets only default values, like the package's file. The proxy
// wouldn't start with such a file, because the file names no backend.
func changesNothing(file string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	c, err := config.Parse(text, file, nil)
	if err != nil {
		return false
	}
	defaults, err := config.Parse(nil, "defaults", nil)
	return err == nil && reflect.DeepEqual(c, defaults)
}
