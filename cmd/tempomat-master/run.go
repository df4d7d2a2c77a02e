package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
)

// usualFile is read if none is named.
const usualFile = "/etc/tempomat/master.yaml"

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("tempomat-master", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", usualFile, "configuration `file`")
	check := flags.Bool("check", false, "read the configuration, say what it means, and do nothing else")
	tellVersion := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "tempomat-master: unexpected argument %q\n", flags.Arg(0))
		return 2
	case *tellVersion:
		fmt.Fprintln(stdout, version)
		return 0
	}
	c, err := config.LoadMaster(*file)
	switch {
	case err != nil:
		return daemon.Status(err, stderr)
	case *check:
		fmt.Fprintf(stdout, "%s is sound\n", *file)
		c.Describe(stdout)
		return 0
	}
	output := daemon.NewOutput(stderr)
	err = newServer(c, *file, output).run(ctx)
	output.Close()
	return daemon.Status(err, stderr)
}
