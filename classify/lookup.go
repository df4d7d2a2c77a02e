package classify

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tempomat/limiter"
)

// NetworkKeys are the keys of a client that follow from its address alone, in the order
// of the classes: its own, and those of the networks around it.
func (c *Classifier) NetworkKeys(a netip.Addr) (keys []limiter.Key) {
	a = a.Unmap().WithZone("")
	for _, class := range c.classes {
		if !class.kind.Address {
			continue
		}
		if id := string(class.appendID(nil, a, nil)); id != "" {
			keys = append(keys, limiter.Key{Class: class.Name, ID: id})
		}
	}
	return keys
}

// isNetwork tells whether the class goes by a network around the client's address.
func (c *grouping) isNetwork() bool { return c.By == Slash32 || c.By == Slash24 || c.By == Slash16 }

// KeyOf is a key as an administrator writes it: of a class that goes by the network, an
// address stands for the key that it is charged to. Its error says what is no key of the
// class, which nobody's requests would ever have.
func (c *Classifier) KeyOf(class, id string) (limiter.Key, error) {
	k := limiter.Key{Class: class, ID: id}
	for _, x := range c.classes {
		if x.Name != class || !x.isNetwork() {
			continue
		}
		a, err := netip.ParseAddr(strings.Trim(id, "[]"))
		if p, wrong := netip.ParsePrefix(id); err != nil && wrong == nil {
			a, err = p.Masked().Addr(), nil
			if !p.IsSingleIP() && string(appendNetwork(nil, a, x.By)) != p.Masked().String() {
				return k, fmt.Errorf("key: %s is as wide as no key of class %s; that of %s is %s", id, class, a, appendNetwork(nil, a, x.By))
			}
		}
		if err != nil {
			return k, fmt.Errorf("key: %q is no address, and no network: class %s goes by them", id, class)
		}
		k.ID = string(appendNetwork(nil, a.Unmap().WithZone(""), x.By))
	}
	return k, nil
}

// AgentKeys are the keys of a User-Agent, or of a family of them, and that family. They
// are none if no class goes by it.
func (c *Classifier) AgentKeys(agent string) (family string, keys []limiter.Key) {
	family = c.agents.read(agent).family
	for _, class := range c.classes {
		if class.By == UserAgent {
			keys = append(keys, limiter.Key{Class: class.Name, ID: family})
		}
	}
	return family, keys
}

// Exempts tells whether an address's plain requests for a URL are never charged or delayed.
func (c *Classifier) Exempts(a netip.Addr, u *url.URL) bool {
	r := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host}
	_, exempt := c.matchSite(a.Unmap(), r)
	return exempt || matchesAny(c.exempt, a.Unmap(), r)
}

// SiteOf is the name of the site that a host is one of; empty: none that was named.
func (c *Classifier) SiteOf(host string) string {
	if s := c.sites.of(host); s != nil {
		return s.name
	}
	return ""
}

// ShapeOf is the shape of a URL, as Result has it.
func ShapeOf(u *url.URL) string {
	shape, _ := appendShape(nil, u.Path, u.RawQuery)
	return string(shape)
}
