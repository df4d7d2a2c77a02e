package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"tempomat/config"
	"tempomat/proxy/errorpage"
)

// longestRobots is how long a robots.txt may be, in bytes: as much of it as robots have to
// read (RFC 9309, 2.5).
const longestRobots = 500 << 10

// pages are what the proxy itself answers with.
type pages struct {
	errors *errorpage.Set
	robots []byte // nil: the backend's
}

// readPages reads the files that a configuration names. The error tells of all of them.
func readPages(c *config.Config) (p pages, err error) {
	p.errors, err = errorpage.Load(errorpage.Options{Directory: c.ErrorPages.Directory, Languages: c.ErrorPages.Languages})
	var other error
	if c.RobotsTxt != "" {
		p.robots, other = readRobots(c.RobotsTxt)
	}
	return p, errors.Join(err, other)
}

// readRobots reads a robots.txt; it is not nil if there is no error.
func readRobots(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("robotsTxt: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestRobots+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("robotsTxt: %w", err)
	case len(text) > longestRobots:
		return nil, fmt.Errorf("robotsTxt: %s has more than %d bytes, which is as much as robots read", name, longestRobots)
	}
	return text, nil
}
