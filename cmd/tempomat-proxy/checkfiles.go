package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/mmdb"
	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-proxy/internal/sharing"
	"tempomat/config"
)

// checkFiles reads what the configuration names, as a start does, and prints which
// certificates there are. The error is what would keep the proxy from starting; what would
// only be logged is a warning.
func checkFiles(c *config.Config, now time.Time, out io.Writer) error {
	_, err := readPages(c)
	databases := mmdb.New(zap.NewNop())
	opened, other := policy.Databases(c, databases)
	other = errors.Join(other, checkSecrets(c, opened))
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
	warnEach(out, "", sharing.CheckKeys(c))
	_, fault := readToken(c.Admin.Token)
	warnEach(out, "", fault)
	return nil
}

// checkSecrets reads the files of secrets without which nothing starts: of exemptions, and Redis's.
func checkSecrets(c *config.Config, databases map[string]classify.Database) error {
	_, err := policy.Classifier(c, databases)
	if len(c.Coordination.Redis.Addresses) > 0 {
		_, redis := sharing.RedisOptions(c.Coordination.Redis)
		err = errors.Join(err, redis)
	}
	return err
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
