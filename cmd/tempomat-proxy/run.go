package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
)

// The files that are looked for when none is named; the second is the original's.
const (
	usualFile    = "/etc/tempomat/tempomat.yaml"
	originalFile = "/etc/tempomat.json"
)

// run is the program. It returns the exit status.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == demoSiteCommand {
		return report(serveDemoSite(ctx, os.Stdin, stdout), stderr)
	}
	flags := flag.NewFlagSet("tempomat-proxy", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("config", "", "configuration `file` (default "+usualFile+", else "+originalFile+", else none)")
	check := flags.Bool("check", false, "read the configuration, say what it means, and do nothing else")
	replace := flags.Bool("replace", false, "take over from the process that runs with the same configuration and refuse\nnobody meanwhile; if none runs, just start")
	demo := flags.Bool("demo", false, "run before a demo backend of its own")
	attack := flags.Bool("demo-attack", false, "show what a crawler does to a demo site without the gate, and with it")
	tellVersion := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "tempomat-proxy: unexpected argument %q\n", flags.Arg(0))
		return 2
	case *tellVersion:
		fmt.Fprintln(stdout, version)
		return 0
	case *replace && (*check || *demo || *attack):
		fmt.Fprintln(stderr, "tempomat-proxy: -replace goes with -config only")
		return 2
	}
	source := source{file: findFile(*file), env: env}
	if *check {
		return report(source.check(stdout), stderr)
	}
	if *attack {
		return report(runDemoAttack(ctx, source, attackTimes{settle: 6 * time.Second, measure: 16 * time.Second}, stdout, stderr), stderr)
	}
	if *demo {
		return report(runDemo(ctx, source, stdout, stderr), stderr)
	}
	cfg, err := source.load()
	if err != nil {
		return report(err, stderr)
	}
	return report(serve(ctx, cfg, source, *replace, stderr), stderr)
}

func report(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// source is where the configuration comes from, again at each reload.
type source struct {
	file  string // empty: the defaults and the environment
	env   []string
	adapt func(*config.Config) // changes what was read; nil: nothing
}

// findFile returns the file to use. Only one that is named has to exist.
func findFile(named string) string {
	if named != "" {
		return named
	}
	for _, f := range []string{usualFile, originalFile} {
		if _, err := os.Stat(f); !errors.Is(err, fs.ErrNotExist) {
			return f
		}
	}
	return ""
}

func (s source) load() (c *config.Config, err error) {
	if s.file == "" {
		c, err = config.Parse(nil, "defaults", s.env)
	} else {
		c, err = config.Load(s.file, s.env)
	}
	if err == nil && s.adapt != nil {
		s.adapt(c)
	}
	return c, err
}

// check prints what the configuration means.
func (s source) check(stdout io.Writer) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintln(stdout, "no configuration file: these are the defaults")
	} else {
		fmt.Fprintf(stdout, "%s is sound\n", s.file)
	}
	cfg.Describe(stdout, policy.CPUs(cfg))
	return nil
}
