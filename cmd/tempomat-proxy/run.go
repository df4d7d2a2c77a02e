package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
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
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		c, rest := findCommand(commands(), args)
		if c == nil {
			return unknownCommand(commands(), args, stderr)
		}
		return c.run(ctx, invocation{env: env, stdin: os.Stdin, stdout: stdout, stderr: stderr}, rest)
	}
	o, status, done := parseFlags(args, stderr)
	if done {
		return status
	}
	source := source{file: findFile(o.file), env: env}
	switch {
	case o.version:
		fmt.Fprintln(stdout, version)
		return 0
	case o.check:
		return report(source.check(stdout), stderr)
	case o.attack:
		return report(runDemoAttack(ctx, source, attackTimes{settle: 6 * time.Second, measure: 16 * time.Second}, stdout, stderr), stderr)
	case o.demo:
		return report(runDemo(ctx, source, stdout, stderr), stderr)
	}
	cfg, err := source.load()
	if err != nil {
		return report(err, stderr)
	}
	return report(serve(ctx, cfg, source, o.replace, stderr), stderr)
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
