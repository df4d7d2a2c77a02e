package classify

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"tempomat/limiter"
)

// Crawler is a robot that can be verified: whoever runs it tells where it comes from.
type Crawler struct {
	Name      string         // its account's
	Agents    []string       // the families of its User-Agents
	Domains   []string       // the confirmed name of its address lies below one of them, such as "googlebot.com"
	Addresses []netip.Prefix // or its address in one of them
}

// Hosts tells what addresses are called. It never waits.
type Hosts interface {
	// Host is the name of an address that the name leads back to. It is unknown until
	// somebody was asked; where there is no such name it is known and empty.
	Host(now time.Time, a netip.Addr) (name string, known bool)
}

// RobotsConfig is what NewRobots needs.
type RobotsConfig struct {
	Class    string    // what the class of robots is called
	Replaces []string  // classes that a verified robot is not charged to: those of networks and User-Agents
	Crawlers []Crawler // no two of which have a family in common
	Hosts    Hosts     // nil: nobody is asked, so that domains prove nothing
}

// OtherRobots is the key of all robots together of which nothing is known but the name
// that they give themselves, and of those that have no account of their own. No robot is
// called so, as no family has parentheses.
const OtherRobots = "(others)"

// Robots finds the accounts of robots. A robot is one client, whatever addresses it
// comes from: one that is verified has an account in place of those of its networks, and
// one that is known by its name alone beside these. Of the latter, as anybody can make
// names up, all together are as one client. Who merely claims the name of one that can
// be verified has the claim held against it, once that is known.
//
// It never changes, and it is safe for concurrent use.
type Robots struct {
	RobotsConfig
	byAgent map[string]*crawler
}

type crawler struct {
	Crawler
	addresses PrefixSet
}

// NewRobots makes a Robots. Its error names everything that is wrong with c.
func NewRobots(c RobotsConfig) (*Robots, error) {
	x := &Robots{RobotsConfig: c, byAgent: make(map[string]*crawler)}
	var faults []error
	for _, given := range c.Crawlers {
		addresses, err := NewPrefixSet(given.Addresses)
		if err != nil {
			faults = append(faults, fmt.Errorf("robot %q: %w", given.Name, err))
		}
		of := &crawler{given, addresses}
		for _, agent := range given.Agents {
			if other := x.byAgent[agent]; other != nil {
				faults = append(faults, fmt.Errorf("robot %q: %q is a User-Agent of %s already", given.Name, agent, other.Name))
			}
			x.byAgent[agent] = of
		}
	}
	return x, errors.Join(faults...)
}

// AccountOf is the account that a User-Agent, or a family of them, has if it says the truth;
// false: it does not say that it is a robot.
func (x *Robots) AccountOf(agent string) (limiter.Key, bool) {
	name := Family(agent)
	if of := x.byAgent[name]; of != nil {
		name = of.Name
	} else if !saysRobot(agent) {
		return limiter.Key{}, false
	}
	return limiter.Key{Class: x.Class, ID: name}, true
}

// claim is what is known of a request that says whose robot it is.
type claim uint8

const (
	noClaim  claim = iota // it says of itself no such thing, or nobody knows yet whether that is true
	declared              // it says that it is a robot, which nobody can verify
	verified
	forged // it is not the one that it says it is
)

// Recognise finds the account of a classified request's robot, and makes that its first
// key. It tells whether there is one: then nobody judges its standing, which is a
// person's.
func (x *Robots) Recognise(now time.Time, res *Result) bool {
	if !res.Robot || res.Exempt || res.n == 0 {
		return false
	}
	of := x.byAgent[res.Agent]
	switch x.judge(now, of, res) {
	case verified:
		res.drop(x.Replaces)
		res.Evidence, res.replaced = Verified, x.Replaces
		res.Account = x.admit(res, of.Name, "")
	case declared:
		name := res.Agent
		if of != nil {
			name = of.Name
		}
		res.Account = x.admit(res, name, OtherRobots)
	case forged:
		res.Forged = true
	case noClaim:
	}
	if res.Account {
		res.Standing = 1
	}
	return res.Account
}

// admit makes the account of a name the first key, and that of the pool that it is in,
// if any, the second one. It is false where there is no room, as all the classes that there may be are in
// use.
func (x *Robots) admit(res *Result, name, pool string) bool {
	if pool != "" && res.n+2 > len(res.keys) {
		return false
	}
	if pool != "" {
		res.Prepend(limiter.Key{Class: x.Class, ID: pool})
		res.Pooled = true
	}
	return res.Prepend(limiter.Key{Class: x.Class, ID: name})
}

// judge tells what to make of what a request says of itself.
func (x *Robots) judge(now time.Time, of *crawler, res *Result) claim {
	switch {
	case of == nil && res.declared:
		return declared
	case of == nil:
		return noClaim // another program
	case of.addresses.Contains(res.Client):
		return verified
	case len(of.Domains) == 0 || x.Hosts == nil:
		if len(of.Addresses) > 0 {
			return forged
		}
		return declared
	}
	switch name, known := x.Hosts.Host(now, res.Client); {
	case !known:
		return noClaim
	case isBelow(name, of.Domains):
		return verified
	}
	return forged
}

// isBelow tells whether a name lies below one of some domains.
func isBelow(name string, domains []string) bool {
	for _, d := range domains {
		if rest, ok := strings.CutSuffix(name, d); ok && strings.HasSuffix(rest, ".") {
			return true
		}
	}
	return false
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

// drop takes the keys of some classes out.
func (r *Result) drop(classes []string) {
	n := 0
	for _, k := range r.keys[:r.n] {
		if !slices.Contains(classes, k.Class) {
			r.keys[n] = k
			n++
		}
	}
	clear(r.keys[n:r.n])
	r.n = n
}

// KnownCrawlers are those whose operators document below which domains the names of their
// addresses lie, and which nobody else can have names in.
//
// Google documents googleusercontent.com as well, for what its users have it fetch. It is
// not here, as every machine that anybody rents there has a name in it that leads back.
func KnownCrawlers() []Crawler {
	return []Crawler{
		{
			Name: "googlebot", Domains: []string{"googlebot.com", "google.com"},
			Agents: []string{"googlebot", "googleother", "google inspectiontool", "storebot", "adsbot", "mediapartners google", "apis google"},
		},
		{Name: "bingbot", Domains: []string{"search.msn.com"}, Agents: []string{"bingbot", "msnbot", "adidxbot"}},
		{Name: "applebot", Domains: []string{"applebot.apple.com"}, Agents: []string{"applebot"}},
		{
			Name: "yandexbot", Domains: []string{"yandex.ru", "yandex.net", "yandex.com"},
			Agents: []string{"yandexbot", "yandexmobilebot", "yandexaccessibilitybot", "yandexrenderresourcesbot", "yandeximages"},
		},
		{Name: "baiduspider", Domains: []string{"baidu.com", "baidu.jp"}, Agents: []string{"baiduspider"}},
		{Name: "slurp", Domains: []string{"crawl.yahoo.net", "yse.yahoo.net"}, Agents: []string{"slurp"}},
		{Name: "seznambot", Domains: []string{"seznam.cz"}, Agents: []string{"seznambot"}},
		{Name: "petalbot", Domains: []string{"petalsearch.com", "aspiegel.com"}, Agents: []string{"petalbot"}},
		{Name: "mojeekbot", Domains: []string{"mojeek.com"}, Agents: []string{"mojeekbot"}},
		{Name: "amazonbot", Domains: []string{"crawl.amazonbot.amazon"}, Agents: []string{"amazonbot"}},
		{Name: "ccbot", Domains: []string{"crawl.commoncrawl.org"}, Agents: []string{"ccbot"}},
		{Name: "pinterestbot", Domains: []string{"pinterest.com", "pinterestcrawler.com"}, Agents: []string{"pinterestbot"}},
	}
}
