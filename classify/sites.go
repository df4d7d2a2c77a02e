package classify

import "strings"

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

func newSites(given []Site) *sites {
	s := &sites{exact: map[string]string{}, below: map[string]string{}}
	for _, g := range given {
		for _, host := range g.Hosts {
			if below, ok := strings.CutPrefix(host, "*."); ok {
				s.below[below] = g.Name
			} else {
				s.exact[host] = g.Name
			}
		}
	}
	return s
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
