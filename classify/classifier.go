package classify

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"tempomat/limiter"
)

// By says what a class groups requests by: the name of a built-in class, or one of those
// that a class of one's own has.
type By string

// The ways of grouping that others ask for by name.
const (
	Slash32   By = "slash32"   // the client's address; IPv6: its /64
	Slash24   By = "slash24"   // the client's /24; IPv6: its /56
	Slash16   By = "slash16"   // the client's /16; IPv6: its /48
	UserAgent By = "userAgent" // the family of the User-Agent
	Header    By = "header"    // of one's own: the value of a request header, hashed
	PathShape By = "path"      // of one's own: the shape of the path, without its parameters' names

	// What other gatekeepers call clients.
	Address         By = "address"
	MappedAddress   By = "mappedAddress"   // IPv4 as IPv6
	UserAgentHeader By = "userAgentHeader" // as it was sent
)

// Class is one way of grouping requests, under its configured name.
type Class struct {
	Name   string
	By     By
	Header string // for Header: the header's name, in any case
}

// grouping is a Class at work.
type grouping struct {
	Class
	kind     Kind     // zero: it is not built in
	database Database // nil: it needs none, or that is not there
}

// Database tells what addresses belong to, such as an autonomous system. It may be asked
// concurrently, and does no I/O when it is.
type Database interface {
	// ID is the key of an address, of at most 64 bytes; empty: it has none.
	ID(a netip.Addr) string
}

// Config is what New needs.
type Config struct {
	TrustedProxies []netip.Prefix // peers, and hops, whose word about the client's address counts
	AddressHeader  AddressHeader  // where they give it
	Classes        []Class        // at most limiter.MaxKeys, each with a name of its own
	Exempt         []Exemption
	Sites          []Site
	Databases      map[string]Database // by Kind.Database; a class whose database is not there has no keys
}

// Classifier classifies requests. Its answers never change, and it is safe for concurrent use.
type Classifier struct {
	trusted PrefixSet
	source  AddressHeader
	classes []grouping
	exempt  []Exemption
	sites   *sites
	agents  *families
}

// New makes a Classifier. Its error names everything that is wrong with c.
func New(c Config) (*Classifier, error) {
	trusted, err := NewPrefixSet(c.TrustedProxies)
	var faults []error
	if err != nil {
		faults = append(faults, fmt.Errorf("trusted proxies: %w", err))
	}
	if c.AddressHeader > NoHeader {
		faults = append(faults, fmt.Errorf("address header: %d is none of the known ones", c.AddressHeader))
	}
	exempt, err := normaliseExemptions(c.Exempt)
	faults = append(faults, err)
	sites, err := newSites(c.Sites)
	faults = append(faults, err)
	classes, err := normaliseClasses(c.Classes, c.Databases)
	faults = append(faults, err)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Classifier{trusted: trusted, source: c.AddressHeader, classes: classes, exempt: exempt, sites: sites, agents: newFamilies()}, nil
}

func normaliseClasses(given []Class, databases map[string]Database) ([]grouping, error) {
	var faults []error
	if len(given) > limiter.MaxKeys {
		faults = append(faults, fmt.Errorf("classes: %d are given, at most %d are allowed", len(given), limiter.MaxKeys))
	}
	names := make(map[string]bool, len(given))
	classes := make([]grouping, 0, len(given))
	for i, c := range given {
		switch {
		case c.Name == "":
			faults = append(faults, fmt.Errorf("class %d: it needs a name", i+1))
		case names[c.Name]:
			faults = append(faults, fmt.Errorf("class %q: the name is given twice", c.Name))
		case !isKnown(c.By):
			faults = append(faults, fmt.Errorf("class %q: %q is no known way of grouping", c.Name, c.By))
		case c.By == Header && !isToken(c.Header):
			faults = append(faults, fmt.Errorf("class %q: %q is not the name of a header", c.Name, c.Header))
		}
		names[c.Name] = true
		c.Header = textproto.CanonicalMIMEHeaderKey(c.Header)
		kind, _ := KindOf(string(c.By))
		classes = append(classes, grouping{c, kind, databases[kind.Database]})
	}
	return classes, errors.Join(faults...)
}

func isKnown(by By) bool {
	_, builtIn := KindOf(string(by))
	return builtIn || slices.Contains([]By{Header, PathShape, Address, MappedAddress, UserAgentHeader}, by)
}

// Result is what Classify found out about one request. It is meant to be
// embedded in a record of the request and used again for the next one.
type Result struct {
	Client      netip.Addr // the address that is charged: always valid, unmapped, without a zone
	TrustedPeer bool       // the peer is a trusted proxy: its forwarded headers count
	Exempt      bool       // the request is never charged or delayed, and has no keys
	Site        string     // the name of the site that it is for; empty: of none that was named
	Shape       string     // the shape of the path and the names of its parameters, at most 96 bytes

	Standing      float64  // what the client's share is multiplied by; 0: not judged
	Evidence      Evidence // why
	Address       string   // the ID of the first key, also when its session goes before it; empty: not judged
	ClientsBehind float64  // number of clients behind the address, by its sessions: 1 to 8; 0: not judged
	Session       bool     // the first key is a session of the address, which is the second
	Face          uint8    // 0 to 7: which of those behind the address it seems to be, where it has no session; 0 with one
	Follows       bool     // it is for a part of the page that the client was just served
	Agent         string   // the family of its User-Agent
	Robot         bool     // its User-Agent names a robot or another program, and no browser
	Account       bool     // the first key is a robot's account
	Pooled        bool     // that is one of a name that anyone can make up, or of all of these together
	Forged        bool     // its User-Agent names a robot which it is not
	Declared      bool     // its User-Agent says that it is a robot
	Fetcher       bool     // the first key is the account of what fetches for people that ask
	Prefetch      bool     // the browser asks in advance: no person looks at the answer yet

	keys     [limiter.MaxKeys]limiter.Key
	n        int
	replaced []string // the classes that the robot's account stands instead of
}

// Keys are the keys to charge, at most one for each class, in the order of the
// classes; before them that of a session or the account of a robot, if there is one, and of
// the pool that the account is in. The slice is the Result's own: it holds until the next
// Classify.
func (r *Result) Keys() []limiter.Key { return r.keys[:r.n] }

// Identity splits the keys: the client's own, the zero Key if there is none; the key that it is
// a part of (the address of its session, or the pool that its name is in), the zero Key if
// none; and the others. It holds until the next Classify.
func (r *Result) Identity() (client, within limiter.Key, others []limiter.Key) {
	switch {
	case r.n == 0:
		return client, within, nil
	case r.n > 1 && (r.Session || r.Pooled && r.keys[1].Class == r.keys[0].Class): // else the pool is its account
		return r.keys[0], r.keys[1], r.keys[2:r.n]
	}
	return r.keys[0], within, r.keys[1:r.n]
}

// Keep leaves the keys of such classes only.
func (r *Result) Keep(has func(class string) bool) {
	n := 0
	for i := range r.keys[:r.n] {
		if has(r.keys[i].Class) {
			r.keys[n] = r.keys[i]
			n++
		} else if i == 0 {
			r.Session, r.Account, r.Fetcher, r.Pooled = false, false, false, false // that is what the first key was
		}
	}
	clear(r.keys[n:])
	r.n = n
}

// Prepend makes a key the first one, if there is room.
func (r *Result) Prepend(k limiter.Key) bool {
	if r.n == len(r.keys) {
		return false
	}
	copy(r.keys[1:], r.keys[:r.n])
	r.keys[0] = k
	r.n++
	return true
}

// Key is that of a class, or the account of a verified robot where it has that in place
// of one; false: it has none.
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

// Replace takes the keys of some classes out: the account that becomes the first key stands in
// place of them.
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

// maxText is the most bytes that the shape and the IDs of one request take.
const maxText = maxShape + limiter.MaxKeys*maxID

// maxID is the length of the longest ID of a class, in bytes.
const maxID = 64

// Seen is what a server saw of a request that package net/http does not keep.
type Seen struct {
	Fields Fields // the names of its header's fields; nil: HTTP/2 has no order, and no other is known
}

// Fields are the names of the fields of a request's header, in the client's order.
type Fields interface {
	Len() int
	Name(at int) string // as package net/http writes it
}

// Classify is ClassifySeen without other observations of the request.
func (c *Classifier) Classify(r *http.Request, into *Result) { c.ClassifySeen(r, Seen{}, into) }

// ClassifySeen finds out all that a Result holds and overwrites into with it. It is
// safe for concurrent use. The shape and all IDs are parts of one string; it allocates
// nothing else for a well-formed request with a known User-Agent. A malformed address or a new User-Agent cost small allocations more.
func (c *Classifier) ClassifySeen(r *http.Request, seen Seen, into *Result) {
	into.Client, into.TrustedPeer = c.client(r)
	into.Site, into.Exempt = c.matchSite(into.Client, r)
	into.Exempt = into.Exempt || matchesAny(c.exempt, into.Client, r)
	into.Standing, into.Evidence, into.ClientsBehind = 0, 0, 0
	into.Address = "" // an old one would keep its string alive
	into.Face, into.Follows, into.Prefetch = 0, false, isPrefetch(r.Header)
	agent := c.agents.read(userAgent(r))
	into.Agent, into.Robot, into.Declared = agent.family, agent.robot, agent.declared
	into.Account, into.Fetcher, into.Pooled, into.Forged, into.replaced = false, false, false, false, nil

	asked := requested{r, seen.Fields, agent.family}

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
		text = by.appendID(text, into.Client, &asked)
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
		into.keys[i] = limiter.Key{} // an old ID would keep its string alive
	}
	into.n = n
}

// userAgent is the first of the request's; empty: it has none.
func userAgent(r *http.Request) string {
	if lines := r.Header["User-Agent"]; len(lines) > 0 {
		return lines[0]
	}
	return ""
}

// requested is what classes go by, in addition to the client's address.
type requested struct {
	*http.Request
	fields Fields
	family string // of its User-Agent
}

// appendID appends the request's ID in the class, or nothing when it has none.
func (g *grouping) appendID(dst []byte, client netip.Addr, r *requested) []byte {
	if g.database != nil {
		return append(dst, g.database.ID(client)...)
	}
	switch g.By {
	case Slash32, Slash24, Slash16:
		return appendNetwork(dst, client, g.By)
	case UserAgent:
		return append(dst, r.family...)
	case Address, MappedAddress:
		return appendAddress(dst, client, g.By == MappedAddress)
	case UserAgentHeader:
		text := userAgent(r.Request)
		return append(dst, text[:min(len(text), maxWholeAgent)]...)
	case Header:
		return appendHeaderID(dst, g.Header, r.Request)
	case "fingerprint":
		return appendFingerprint(dst, r.Request, r.fields)
	case "host":
		return appendHost(dst, r.Host)
	default:
		return dst // its database is not there
	}
}

// isPrefetch reports whether a browser asks for a page before its user does. Sec-Purpose shows
// it, also as "prefetch;prerender"; the others are older.
func isPrefetch(h http.Header) bool {
	for _, name := range [...]string{"Sec-Purpose", "Purpose", "X-Moz"} {
		if lines := h[name]; len(lines) > 0 && strings.HasPrefix(lines[0], "prefetch") {
			return true
		}
	}
	return false
}

// Evidence is what speaks for, or against, a client being a person's browser.
type Evidence uint8

// The kinds of evidence.
const (
	Cookie        Evidence = 1 << iota // it brought back a cookie that the site gave it
	Parts                              // it loads the style sheets and images of its pages
	_                                  // what an earlier version told other instances
	Attested                           // the backend, or the configuration, vouches for it
	Contradiction                      // its headers are not those of the browser it says it is
	Verified                           // it is the robot that it claims to be
	Forged                             // it is not the robot that it says it is
)

// String is the kinds, parted by commas; empty if there are none.
func (e Evidence) String() string {
	var names []string
	for i, name := range []string{"cookie", "parts", "", "attested", "contradiction", "verified", "forged"} {
		if e&(1<<i) != 0 && name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Proves reports whether there is any that a client of a single request could not have. Who
// claims to be a robot that it is not proves nothing.
func (e Evidence) Proves() bool { return e&(Cookie|Parts|Attested) != 0 && e&Forged == 0 }

// The least and the greatest factor of a client's share.
const (
	LeastStanding = 0.5
	MostStanding  = 8.0
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

// isNetwork reports whether the class goes by a network around the client's address.
func (g *grouping) isNetwork() bool { return g.By == Slash32 || g.By == Slash24 || g.By == Slash16 }

// KeyOf is the key that an administrator writes: for classes of networks, an address stands for
// the key that it is charged to. The error shows if it can't be a key of the class, so no
// request would ever have it.
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
			return k, fmt.Errorf("key: %q is neither an address nor a network, and the keys of class %s are those", id, class)
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

// Exempts reports whether an address's plain requests for a URL are never charged or delayed.
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

// ShapeOf is the shape of a URL, as in Result.
func ShapeOf(u *url.URL) string {
	shape, _ := appendShape(nil, u.Path, u.RawQuery)
	return string(shape)
}
