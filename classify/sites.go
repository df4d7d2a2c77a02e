package classify

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Site is one of several behind one backend, which tells them apart by the Host.
type Site struct {
	Name string // not empty
	// Hosts are its names, in lower case and without a port; *.example.com is all that lies
	// below example.com, and not that itself.
	Hosts []string
	// Exempt are requests for it that are never charged or delayed.
	Exempt []Exemption
}

// sites finds the site of a request. Only configured, complete names count: a client can ask
// for any host.
type sites struct {
	exact, below map[string]*servedSite // by the host, and what it lies below
}

type servedSite struct {
	name   string
	exempt []Exemption
}

// longestHost is the longest name that DNS has. A longer one is no site's.
const longestHost = 253

func newSites(given []Site) (*sites, error) {
	s := &sites{exact: map[string]*servedSite{}, below: map[string]*servedSite{}}
	names := map[string]bool{}
	var faults []error
	for _, g := range given {
		exempt, err := normaliseExemptions(g.Exempt)
		if err != nil {
			faults = append(faults, fmt.Errorf("site %q: %w", g.Name, err))
		}
		switch {
		case g.Name == "":
			faults = append(faults, errors.New("a site needs a name"))
		case names[g.Name]:
			faults = append(faults, fmt.Errorf("site %q: the name is given twice", g.Name))
		case len(g.Hosts) == 0:
			faults = append(faults, fmt.Errorf("site %q: it needs a host", g.Name))
		}
		names[g.Name] = true
		served := &servedSite{g.Name, exempt}
		for _, host := range g.Hosts {
			if err := s.add(host, served); err != nil {
				faults = append(faults, fmt.Errorf("site %q: %w", g.Name, err))
			}
		}
	}
	return s, errors.Join(faults...)
}

func (s *sites) add(host string, of *servedSite) error {
	table, name := s.exact, host
	if below, ok := strings.CutPrefix(host, "*."); ok {
		table, name = s.below, below
	}
	switch {
	case name == "" || name != hostOf(name) || len(name) > longestHost || strings.Contains(name, "*"):
		return fmt.Errorf("host %q must be in lower case, without a port", host)
	case table[name] != nil:
		return fmt.Errorf("host %q is given twice", host)
	}
	table[name] = of
	return nil
}

// of is the site of a request's host; nil: it is none that was named. Of several whose names
// it lies below, the longest counts.
func (s *sites) of(host string) (found *servedSite) {
	if len(s.exact)+len(s.below) == 0 {
		return nil
	}
	host = hostOf(host)
	if host == "" || len(host) > longestHost || host[0] == '.' {
		return nil
	}
	if found = s.exact[host]; found != nil {
		return found
	}
	for _, rest, ok := strings.Cut(host, "."); ok && found == nil; _, rest, ok = strings.Cut(rest, ".") {
		found = s.below[rest]
	}
	return found
}

// matchSite is the name of a request's site, and whether that exempts it.
func (c *Classifier) matchSite(client netip.Addr, r *http.Request) (name string, exempt bool) {
	s := c.sites.of(r.Host)
	if s == nil {
		return "", false
	}
	return s.name, matchesAny(s.exempt, client, r)
}
