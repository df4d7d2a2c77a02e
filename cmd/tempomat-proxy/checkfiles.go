package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/classify/mmdb"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
)

// checkFiles reads what the configuration names, as a start does, and prints which
// certificates there are. The error is what would keep the proxy from starting; what would
// only be logged is a warning.
func checkFiles(c *config.Config, now time.Time, out io.Writer) error {
	_, err := readPages(c)
	databases := mmdb.New(zap.NewNop())
	_, other := policy.Databases(c, databases)
	e := newEncryption(zap.NewNop())
	fatal, faults := e.read(c, now)
	if fatal {
		return errors.Join(err, other, faults)
	}
	if err = errors.Join(err, other); err != nil {
		return err
	}
	for _, s := range e.store.States() {
		if s.Fault == "" {
			fmt.Fprintf(out, "certificate %s for %s, until %s\n", s.Certificate, strings.Join(s.Names, " "), s.Expires.UTC().Format(time.DateOnly))
			if !now.Before(s.Expires) {
				fmt.Fprintf(out, "warning: tls.certificates: %s has expired\n", s.Certificate)
			}
		}
	}
	warnEach(out, "tls.certificates: ", faults)
	warnEach(out, "", databases.Fault())
	return nil
}

// warnEach prints a warning for each line of an error.
func warnEach(out io.Writer, about string, err error) {
	if err == nil {
		return
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(out, "warning: %s%s\n", about, strings.TrimSuffix(line, "\n"))
	}
}
