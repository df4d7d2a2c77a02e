package classify

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"tempomat/limiter"
)

// By is the property by which a class groups requests. For a built-in class, it is the class's name.
type By string

// The ways of grouping that other packages use.
const (
	Slash32   By = "slash32"   // the client's address; IPv6: its /64
	Slash24   By = "slash24"   // the client's /24; IPv6: its /56
	Slash16   By = "slash16"   // the client's /16; IPv6: its /48
	UserAgent By = "userAgent" // the family of the User-Agent
	Header    By = "header"    // the hash of a request header's value; not built in
	PathShape By = "path"      // the shape of the path, without names of parameters; not built in

	// These are for sharing clients with other Smockron gatekeepers.
	Address         By = "address"
	MappedAddress   By = "mappedAddress"   // IPv4 as IPv6
	UserAgentHeader By = "userAgentHeader" // the whole header
)

// Class is one way of grouping requests, under its configured name.
type Class struct {
	Name   string
	By     By
	Header string // for Header: the header's name, in any case
}

// grouping is a Class, prepared for use.
type grouping struct {
	Class
	kind     Kind     // zero if the class isn't built in
	database Database // nil: the class needs none, or the database is missing
}

// Database maps addresses to the group to which they belong, such as an autonomous system. Its method may be
// called concurrently and must not do I/O.
type Database interface {
	// ID returns the key for an address, of at most 64 bytes. It is empty if there is none for the address.
	ID(a netip.Addr) string
}

// Config is the configuration of a Classifier.
type Config struct {
	TrustedProxies []netip.Prefix // proxies whose forwarded headers are trusted
	AddressHeader  AddressHeader  // the header in which these proxies give the client's address
	Classes        []Class        // at most limiter.MaxKeys, with different names
	Exempt         []Exemption
	Sites          []Site
	Databases      map[string]Database // by Kind.Database; a class whose database is missing has no keys
}

// Classifier classifies requests. Equal requests get equal results. A Classifier may be used concurrently.
type Classifier struct {
	trusted PrefixSet
	source  AddressHeader
	classes []grouping
	exempt  []Exemption
	sites   *sites
	agents  *families
}

// New makes a Classifier from a configuration that package config has checked.
func New(c Config) *Classifier {
	x := &Classifier{
		trusted: NewPrefixSet(c.TrustedProxies), source: c.AddressHeader, exempt: c.Exempt, sites: newSites(c.Sites), agents: newFamilies(),
	}
	for _, class := range c.Classes {
		kind, _ := KindOf(string(class.By))
		x.classes = append(x.classes, grouping{class, kind, c.Databases[kind.Database]})
	}
	return x
}

// Result holds the findings of Classify about one request. It can be reused for another request.
type Result struct {
	Client      netip.Addr // the address to charge: always valid, unmapped, without a zone
	Own         bool       // a call of the site to itself; set by the caller, after Classify
	TrustedPeer bool       // the peer is a trusted proxy, so its forwarded headers count
	Exempt      bool       // the request is never charged or delayed, and has no keys
	Site        string     // the name of the requested site; empty: none of the configured ones
	Shape       string     // the shape of the path and the names of its parameters, at most 96 bytes

	Standing      float64  // the factor of the client's share; 0: not assessed
	Evidence      Evidence // the reasons for the standing
	Address       string   // the ID of the address's key, which comes second if there is a session; empty: not assessed
	ClientsBehind float64  // the number of clients behind the address, by its sessions: 1 to 8; 0: not assessed
	Person        float64  // how much the client counts as a person, given the pages that it requests: 0 to 1
	Session       bool     // the first key is a session, and the second is its address
	Face          uint8    // distinguishes clients without a session behind one address: 0 to 7
	Follows       bool     // the request is for a part of the page that the client was just served
	Agent         string   // the family of the User-Agent
	Robot         bool     // the User-Agent doesn't name a browser
	Account       bool     // the first key is a robot's account
	Pooled        bool     // the account belongs to an unverified name, or is shared by all such names
	Forged        bool     // the User-Agent names a robot that the client isn't
	Declared      bool     // the User-Agent says that the client is a robot
	Fetcher       bool     // the account belongs to a robot that fetches pages for people
	Prefetch      bool     // the browser requests the page in advance; no person looks at the answer yet

	keys     [limiter.MaxKeys]limiter.Key
	n        int
	replaced []string // the classes that the robot's account replaces
}

// Keys returns the keys to charge, at most one for each class, in the order of the classes. If there is a
// session or a robot's account, its key comes first, followed by the address or pool that contains it. The
// slice is valid until the next Classify with this Result.
func (r *Result) Keys() []limiter.Key { return r.keys[:r.n] }

// Identity splits the keys into the client's own key, the key that contains it (the address of a session, or
// the pool of an account), and the others. A key that doesn't exist is zero. The slice is valid until the
// next Classify with this Result.
func (r *Result) Identity() (client, within limiter.Key, others []limiter.Key) {
	switch {
	case r.n == 0:
		return client, within, nil
	case r.n > 1 && (r.Session || r.Pooled && r.keys[1].Class == r.keys[0].Class): // otherwise the pool itself is the account
		return r.keys[0], r.keys[1], r.keys[2:r.n]
	}
	return r.keys[0], within, r.keys[1:r.n]
}

// Keep removes all keys except those of the classes for which has returns true.
func (r *Result) Keep(has func(class string) bool) {
	n := 0
	for i := range r.keys[:r.n] {
		if has(r.keys[i].Class) {
			r.keys[n] = r.keys[i]
			n++
		} else if i == 0 {
			r.Session, r.Account, r.Fetcher, r.Pooled = false, false, false, false // these described the first key, which was removed
		}
	}
	clear(r.keys[n:])
	r.n = n
}

// Prepend inserts a key before all others and reports whether there was room for it.
func (r *Result) Prepend(k limiter.Key) bool {
	if r.n == len(r.keys) {
		return false
	}
	copy(r.keys[1:], r.keys[:r.n])
	r.keys[0] = k
	r.n++
	return true
}

// Key returns the key of a class, or the verified robot's account that replaces the key.
func (r *Result) Key(class string) (limiter.Key, bool) {
	for _, k := range r.keys[:r.n] {
		if k.Class == class {
			return k, true
		}
	}
	if r.n > 0 && slices.Contains(r.replaced, class) {
		return r.keys[0], true
	}
	return limiter.Key{}, false
}

// Replace removes the keys of some classes. The caller then prepends the account that replaces them.
func (r *Result) Replace(classes []string) {
	n := 0
	for _, k := range r.keys[:r.n] {
		if !slices.Contains(classes, k.Class) {
			r.keys[n] = k
			n++
		}
	}
	clear(r.keys[n:r.n])
	r.n, r.replaced = n, classes
}

// maxText is the largest number of bytes that the shape and the IDs of one request take.
const maxText = maxShape + limiter.MaxKeys*maxID

// maxID is the length of the longest ID of a class, in bytes.
const maxID = 64

// Classify classifies a request and stores the result in into. The shape and all IDs are parts of one string,
// which is the only allocation for a well-formed request whose User-Agent was seen recently.
func (c *Classifier) Classify(r *http.Request, into *Result) {
	into.Client, into.TrustedPeer = c.client(r)
	into.Site, into.Exempt = c.sites.of(r.Host), matchesAny(c.exempt, into.Client, r)
	into.Standing, into.Evidence, into.ClientsBehind, into.Person = 0, 0, 0, 0
	into.Address = "" // an old one would keep its string in memory
	into.Face, into.Follows, into.Prefetch = 0, false, isPrefetch(r.Header)
	agent := c.agents.read(AgentOf(r))
	into.Agent, into.Robot, into.Declared = agent.family, agent.robot, agent.declared
	into.Account, into.Fetcher, into.Pooled, into.Forged, into.replaced = false, false, false, false, nil

	var scratch [maxText]byte
	text, pathEnd := appendShape(scratch[:0], r.URL.Path, r.URL.RawQuery)
	shapeEnd := len(text)

	var part [limiter.MaxKeys]struct{ class, start, end int }
	n := 0
	for i := range c.classes {
		if into.Exempt {
			break
		}
		by := &c.classes[i]
		start := len(text)
		if by.By == PathShape {
			part[n].class, part[n].start, part[n].end = i, 0, pathEnd
			n++
			continue
		}
		text = by.appendID(text, into.Client, r, agent.family)
		if len(text) == start {
			continue // the request has no key in this class
		}
		part[n].class, part[n].start, part[n].end = i, start, len(text)
		n++
	}

	all := string(text)
	into.Shape = all[:shapeEnd]
	for i := range n {
		into.keys[i] = limiter.Key{Class: c.classes[part[i].class].Name, ID: all[part[i].start:part[i].end]}
	}
	for i := n; i < into.n; i++ {
		into.keys[i] = limiter.Key{} // an old ID would keep its string in memory
	}
	into.n = n
}

// AgentOf returns a request's first User-Agent, or an empty string.
func AgentOf(r *http.Request) string {
	if lines := r.Header["User-Agent"]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}

// appendID appends the request's ID in the class, or nothing if the request has none.
func (g *grouping) appendID(dst []byte, client netip.Addr, r *http.Request, family string) []byte {
	if g.database != nil {
		return append(dst, g.database.ID(client)...)
	}
	switch g.By {
	case Slash32, Slash24, Slash16:
		return appendNetwork(dst, client, g.By)
	case UserAgent:
		return append(dst, family...)
	case Address, MappedAddress:
		return appendAddress(dst, client, g.By == MappedAddress)
	case UserAgentHeader:
		text := AgentOf(r)
		return append(dst, text[:min(len(text), maxWholeAgent)]...)
	case Header:
		return appendHeaderID(dst, g.Header, r.Header)
	case "host":
		return appendHost(dst, r.Host)
	default:
		return dst // the database of the class is missing
	}
}

// isPrefetch reports whether a browser requests a page before its user asks for it. Current browsers send
// Sec-Purpose, which may be "prefetch;prerender"; the other two headers are older.
func isPrefetch(h http.Header) bool {
	for _, name := range [...]string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if lines := h[name]; len(lines) > 0 && strings.HasPrefix(lines[0], "prefetch") {
			return true
		}
	}
	return false
}

// Evidence is a set of reasons to believe, or to doubt, that a client is a person's browser.
type Evidence uint8

// The kinds of evidence.
const (
	Cookie   Evidence = 1 << iota // the client sent back a cookie that the site had set
	Parts                         // the client loads the style sheets and images of its pages
	_                             // an earlier version shared this bit with other instances
	Attested                      // the backend or the configuration vouches for the client
	_                             // another bit that an earlier version shared
	Verified                      // the client is the robot that it claims to be
	Forged                        // the client isn't the robot that it claims to be
)

// String lists the kinds, separated by commas.
func (e Evidence) String() string {
	var names []string
	for i, name := range []string{"cookie", "parts", "", "attested", "", "verified", "forged"} {
		if e&(1<<i) != 0 && name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Proves reports whether there is evidence that a client can't have with its first request. Evidence doesn't
// count if the client falsely claims to be a robot.
func (e Evidence) Proves() bool { return e&(Cookie|Parts|Attested) != 0 && e&Forged == 0 }

// The smallest and the largest factor of a client's share.
const (
	LeastStanding = 0.5
	MostStanding  = 8.0
)

// NetworkKeys returns the keys that depend only on an address, in the order of the classes.
func (c *Classifier) NetworkKeys(a netip.Addr) (keys []limiter.Key) {
	a = a.Unmap().WithZone("")
	for _, class := range c.classes {
		if !class.kind.Address {
			continue
		}
		if id := string(class.appendID(nil, a, nil, "")); id != "" {
			keys = append(keys, limiter.Key{Class: class.Name, ID: id})
		}
	}
	return keys
}

// isNetwork reports whether the class groups by the client's address or a network around it.
func (g *grouping) isNetwork() bool { return g.By == Slash32 || g.By == Slash24 || g.By == Slash16 }

// KeyOf returns the key that an administrator named by class and ID. In classes of networks, the ID may also be an
// address in the network. The error says why no request can have such a key.
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
				return k, fmt.Errorf("key: class %s has no key as wide as %s; the key of %s is %s", class, id, a, appendNetwork(nil, a, x.By))
			}
		}
		if err != nil {
			return k, fmt.Errorf("key: %q is neither an address nor a network, but the keys of class %s are", id, class)
		}
		k.ID = string(appendNetwork(nil, a.Unmap().WithZone(""), x.By))
	}
	return k, nil
}

// AgentKeys returns the family of a User-Agent and its keys. There are none if no class groups by
// User-Agent.
func (c *Classifier) AgentKeys(agent string) (family string, keys []limiter.Key) {
	family = c.agents.read(agent).family
	for _, class := range c.classes {
		if class.By == UserAgent {
			keys = append(keys, limiter.Key{Class: class.Name, ID: family})
		}
	}
	return family, keys
}

// Exempts reports whether a GET request from an address for a URL is exempt.
func (c *Classifier) Exempts(a netip.Addr, u *url.URL) bool {
	r := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host}
	return matchesAny(c.exempt, a.Unmap(), r)
}

// SiteOf returns the name of the site to which a host belongs, or an empty string.
func (c *Classifier) SiteOf(host string) string { return c.sites.of(host) }

// ShapeOf returns the shape of a URL, as in Result.
func ShapeOf(u *url.URL) string {
	shape, _ := appendShape(nil, u.Path, u.RawQuery)
	return string(shape)
}
