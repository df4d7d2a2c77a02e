package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
)

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
	c, err = config.Load(s.file, s.env) // without a file: the defaults
	if err == nil && s.adapt != nil {
		s.adapt(c)
	}
	return c, err
}

// check prints what the configuration means: in short, or every key.
func (s source) check(ctx context.Context, stdout io.Writer, verbose bool) error {
	cfg, err := s.load()
	if err != nil {
		return withNextStep(err)
	}
	var certificates bytes.Buffer
	if err := checkFiles(cfg, time.Now(), &certificates); err != nil {
		return err
	}
	if err := s.checkAsService(ctx, certificates.String(), &certificates); err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintf(stdout, "no configuration file (%s): these are the defaults\n", usualFile)
	} else {
		fmt.Fprintf(stdout, "%s is sound\n", s.file)
	}
	if verbose {
		cfg.Describe(stdout, policy.CPUs(cfg))
		_, err = certificates.WriteTo(stdout)
		return err
	}
	cfg.Summary(stdout, policy.CPUs(cfg))
	if _, err := certificates.WriteTo(stdout); err != nil {
		return err
	}
	if s.file == "" {
		fmt.Fprintln(stdout, setupHint)
	}
	fmt.Fprintln(stdout, `"tempomat-proxy -check -v" tells every key`)
	return nil
}

const setupHint = `"tempomat-proxy setup" prints a file that fits this machine`

// withNextStep says what to do where the file is not there.
func withNextStep(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w\n%s; without -config the defaults run", err, setupHint)
	}
	return err
}
