package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy/admin"
)

// The length of a token, in bytes: one that is shorter can be guessed.
const (
	leastToken = 16
	mostToken  = 512
)

// openWeb listens for browsers. Without it, nil, the site goes on all the same.
func (s *sidecar) openWeb(ctx context.Context, c config.Admin) net.Listener {
	if c.Web == "" {
		return nil
	}
	l, err := admin.ListenWeb(ctx, c.Web)
	if err != nil {
		s.logs.log.Error("no dashboard over TCP", zap.Error(err))
		return nil
	}
	s.logs.log.Info("the dashboard is served", zap.Stringer("at", l.Addr()))
	return l
}

// grant reads the token anew. One that is no good leaves the old one in force; at the start
// there is none, and nobody gets in.
func (s *sidecar) grant(c config.Admin) {
	token, err := readToken(c.Token)
	if err != nil {
		says := "the token of the dashboard stays as it was"
		if !s.access.Granted() {
			says = "the dashboard lets nobody in until a reload finds a token"
		}
		s.logs.log.Error(says, zap.Error(err))
		return
	}
	s.access.Set(token, c.Hosts)
}

// readToken reads the file of the token, whose last line break does not count; that of no
// file is empty.
func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("admin.token: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("admin.token: %s is not a file", file)
	}
	if others := info.Mode().Perm() & 0o027; others != 0 {
		return "", fmt.Errorf("admin.token: %s has mode %#o: others may not read it, nor its group write it (chmod 600)", file, info.Mode().Perm()&fs.ModePerm)
	}
	if info.Size() > mostToken+2 {
		return "", fmt.Errorf("admin.token: %s has more than %d characters", file, mostToken)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("admin.token: %w", err)
	}
	token := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if err := checkToken(token); err != nil {
		return "", fmt.Errorf("admin.token: %s: %w", file, err)
	}
	return token, nil
}

// checkToken sees to it that a token can be sent in a header, and hardly be guessed.
func checkToken(token string) error {
	odd := func(c rune) bool { return c <= ' ' || c > '~' }
	switch {
	case len(token) < leastToken || len(token) > mostToken:
		return fmt.Errorf("has %d characters; %d to %d are allowed", len(token), leastToken, mostToken)
	case strings.ContainsFunc(token, odd):
		return errors.New("must be visible ASCII characters without spaces, in one line")
	}
	return nil
}
