package classify

import (
	"errors"
	"fmt"
	"strings"
)

// Site is one of several sites that a backend serves and distinguishes by their hosts.
type Site struct {
	Name string // not empty
	// Hosts are its names, in lower case and without a port. *.example.com means all names below example.com,
	// but not example.com itself.
	Hosts []string
}

// sites finds the site of a request. A host counts only if it fully matches a configured name, because a
// client can send any host.
type sites struct {
	exact, below map[string]string // names of sites, by host and by the domain above the host
}

// longestHost is the length of the longest name that DNS allows. A longer host belongs to no site.
const longestHost = 253

func newSites(given []Site) (*sites, error) {
	s := &sites{exact: map[string]string{}, below: map[string]string{}}
	names := map[string]bool{}
	var faults []error
	for _, g := range given {
		switch {
		case g.Name == "":
			faults = append(faults, errors.New("a site has no name"))
		case names[g.Name]:
			faults = append(faults, fmt.Errorf("site %q: the name is given twice", g.Name))
		case len(g.Hosts) == 0:
			faults = append(faults, fmt.Errorf("site %q has no host", g.Name))
		}
		names[g.Name] = true
		for _, host := range g.Hosts {
			if err := s.add(host, g.Name); err != nil {
				faults = append(faults, fmt.Errorf("site %q: %w", g.Name, err))
			}
		}
	}
	return s, errors.Join(faults...)
}

func (s *sites) add(host, site string) error {
	table, name := s.exact, host
	if below, ok := strings.CutPrefix(host, "*."); ok {
		table, name = s.below, below
	}
	switch {
	case name == "" || name != hostOf(name) || len(name) > longestHost || strings.Contains(name, "*"):
		return fmt.Errorf("host %q must be in lower case, without a port", host)
	case table[name] != "":
		return fmt.Errorf("host %q is given twice", host)
	}
	table[name] = site
	return nil
}

// of returns the name of the site to which a host belongs, or an empty string. If the host is below the
// domains of several sites, the longest domain counts.
func (s *sites) of(host string) (site string) {
	if len(s.exact)+len(s.below) == 0 {
		return ""
	}
	host = hostOf(host)
	if host == "" || len(host) > longestHost || host[0] == '.' {
		return ""
	}
	if site = s.exact[host]; site != "" {
		return site
	}
	for _, rest, ok := strings.Cut(host, "."); ok && site == ""; _, rest, ok = strings.Cut(rest, ".") {
		site = s.below[rest]
	}
	return site
}
