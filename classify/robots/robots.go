// Package robots finds the accounts of robots. A verified robot counts as one client, whatever its addresses
// are. A robot can be verified in three ways:
//
//   - Its address is on a list that its operator publishes or that an administrator gave.
//   - The name of its address is below a domain of the operator.
//   - The request is signed with the operator's key.
//
// A verified robot is charged to its account instead of the keys of its networks and its User-Agent. A robot
// that is known only by its name is charged to an account for that name and also to these keys. Anyone can
// invent names, so all such robots together count as one client. A request is forged if its name and its proof
// belong to different operators.
//
// The folder known has a file for each known robot; see [Robot].
package robots

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
)

// Proofs finds proofs of robots' identities. Its methods never block.
type Proofs interface {
	// Host returns the name of an address if the name also resolves to that address. name is empty if there is
	// no such name. known is false until DNS has answered.
	Host(now time.Time, a netip.Addr) (name string, known bool)
	// Lists returns the lists that operators publish.
	Lists() *Lists
	// Signer returns the host whose key signed a request, or an empty string if that host signs for no known
	// robot. known is false if the signature hasn't been checked because too many signatures arrive.
	Signer(now time.Time, r *http.Request, res *classify.Result) (host string, known bool)
}

// Config is the configuration of Robots.
type Config struct {
	Class    string   // the name of the class of robots
	Replaces []string // classes of networks and User-Agents, in which verified robots aren't charged
	Robots   []Robot  // if several have the same User-Agent, the first one counts
	Proofs   Proofs   // nil: only addresses that an administrator gave are proofs
}

// Others is the ID of the key that is shared by all robots that are known only by their names. No robot has
// this name, because no family contains parentheses.
const Others = "(others)"

// fetcherStanding is the standing of robots that fetch pages for people. They go before crawlers but after
// people, whose standing is 2 with a cookie.
const fetcherStanding = 1.5

// Robots finds the accounts of robots. It may be used concurrently.
type Robots struct {
	Config
	all      []*robot
	byAgent  map[string][]named
	bySigner map[string]*robot
	given    classify.PrefixSet // all addresses that an administrator gave
}

// named is a name that a robot has in its User-Agents.
type named struct {
	text string
	of   *robot
}

type robot struct {
	Robot
	given  classify.PrefixSet
	proved [proofs]atomic.Bool // proofs that have succeeded since the configuration was loaded
}

// proof is a way to verify a robot.
type proof int

const (
	byAddress proof = iota // by a list of addresses
	byDNS
	bySignature
	proofs = iota
)

func (p proof) String() string { return [proofs]string{"its list", "DNS", "its signature"}[p] }

// note records a proof. It writes only if the proof is new, which is rare.
func (r *robot) note(p proof) {
	if !r.proved[p].Load() {
		r.proved[p].Store(true)
	}
}

// New makes Robots.
func New(c Config) *Robots {
	x := &Robots{Config: c, byAgent: make(map[string][]named), bySigner: make(map[string]*robot)}
	var given []netip.Prefix
	for _, r := range c.Robots {
		of := &robot{Robot: r, given: classify.NewPrefixSet(r.Addresses)}
		x.all = append(x.all, of)
		given = append(given, r.Addresses...)
		for _, host := range r.Signers {
			x.bySigner[host] = of
		}
		for _, agent := range r.Agents {
			family, text := classify.Family(agent), strings.ToLower(agent)
			if !slices.ContainsFunc(x.byAgent[family], func(n named) bool { return n.text == text }) {
				x.byAgent[family] = append(x.byAgent[family], named{text, of})
			}
		}
	}
	x.given = classify.NewPrefixSet(given)
	return x
}

// named returns the robot that a User-Agent names, or nil if it names no known robot. Several robots may have
// the same family, for example OAI-SearchBot and Claude-SearchBot.
func (x *Robots) named(family, agent string) *robot {
	all := x.byAgent[family]
	switch len(all) {
	case 0:
		return nil // the usual case for browsers; the text isn't copied
	case 1:
		return all[0].of
	}
	agent = strings.ToLower(agent[:min(len(agent), classify.MaxAgentBytes)])
	for _, n := range all {
		if strings.Contains(agent, n.text) {
			return n.of
		}
	}
	return nil
}

// AccountOf returns the account of verified robots with this User-Agent or family. It returns false if the
// User-Agent doesn't name a robot.
func (x *Robots) AccountOf(agent string) (limiter.Key, bool) {
	name := classify.Family(agent)
	if of := x.named(name, agent); of != nil {
		name = of.Account()
	} else if !classify.SaysRobot(agent) {
		return limiter.Key{}, false
	}
	return limiter.Key{Class: x.Class, ID: name}, true
}

// ProofOf describes how the robots of an account were verified, and the age of their lists. It is empty for
// keys that aren't accounts of robots. x may be nil.
func (x *Robots) ProofOf(k limiter.Key) string {
	if x == nil || k.Class != x.Class {
		return ""
	}
	var parts []string
	add := func(part string) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	for _, r := range x.all {
		if r.Account() != k.ID {
			continue
		}
		for p := range proof(proofs) {
			if r.proved[p].Load() {
				add("by " + p.String())
			}
		}
		if len(r.Addresses) > 0 {
			add(fmt.Sprintf("%d prefixes of your own", len(r.Addresses)))
			continue
		}
		for _, url := range r.Lists {
			if x.Proofs == nil {
				break
			}
			if list := x.Proofs.Lists().Of(url); len(list.Prefixes) > 0 {
				add(fmt.Sprintf("%d prefixes of %s", len(list.Prefixes), list.Confirmed.UTC().Format("2006-01-02 15:04")))
			} else {
				add("no list")
			}
		}
	}
	return strings.Join(parts, ", ")
}

// claim is the result of checking whether a request comes from a robot.
type claim uint8

const (
	noClaim  claim = iota // the client doesn't claim to be a robot, or the check isn't finished
	declared              // the client claims to be a robot, and there is no way to check the claim
	verified
	forged // the client isn't the robot that it claims to be
)

// Recognise finds the account of a classified request's robot and makes it the first key. It reports whether
// there is one. The standing of such a request isn't judged any further.
func (x *Robots) Recognise(now time.Time, r *http.Request, res *classify.Result) bool {
	if res.Exempt || len(res.Keys()) == 0 {
		return false
	}
	is, what := x.judge(now, x.named(res.Agent, classify.AgentOf(r)), r, res)
	switch what {
	case verified:
		res.Replace(x.Replaces)
		res.Evidence, res.Robot = classify.Verified, true
		res.Account = x.admit(res, is.Account(), "")
		res.Standing = 1
		if is.Kind == Person {
			res.Fetcher, res.Standing = res.Account, fetcherStanding
		}
	case declared:
		name := res.Agent
		if is != nil {
			name = is.Account()
		}
		res.Account = x.admit(res, name, Others)
		res.Standing = 1
	case forged:
		res.Forged = true
	case noClaim:
	}
	if !res.Account {
		res.Standing = 0
	}
	return res.Account
}

// admit makes the account of a name the first key, and the pool, if there is one, the second key. It returns
// false if there are too many keys.
func (x *Robots) admit(res *classify.Result, name, pool string) bool {
	if pool != "" {
		if len(res.Keys())+2 > limiter.MaxKeys {
			return false
		}
		res.Prepend(limiter.Key{Class: x.Class, ID: pool})
		res.Pooled = true
	}
	return res.Prepend(limiter.Key{Class: x.Class, ID: name})
}

// judge checks a request whose User-Agent names the robot says, or no robot if says is nil. judge returns the
// robot to charge, if there is one.
func (x *Robots) judge(now time.Time, says *robot, r *http.Request, res *classify.Result) (*robot, claim) {
	of, known := x.signer(now, r, res)
	by := bySignature
	switch {
	case says != nil && says != of && x.has(says, res.Client):
		of, by = says, byAddress
	case of == nil:
		of, by = x.at(res.Client), byAddress
	}
	switch {
	case says == nil && res.Declared && by == byAddress:
		return nil, declared
	case says == nil && of == nil:
		return nil, noClaim
	case says == nil, says == of: // a User-Agent that names no robot belongs to a browser or another program
	case of != nil && of.Operator == says.Operator && of.Operator != "":
		if of.Kind == Person { // the operator's crawlers must not benefit from the addresses of its fetcher
			of = says
		}
	case !known: // the signature wasn't checked and may be the robot's
		return nil, noClaim
	default:
		return says, x.disproved(now, says, of != nil, res.Client)
	}
	of.note(by)
	return of, verified
}

// signer returns the robot whose key signed a request, or nil if there is none. known is false if the
// signature wasn't checked.
func (x *Robots) signer(now time.Time, r *http.Request, res *classify.Result) (of *robot, known bool) {
	if x.Proofs == nil || len(r.Header["Signature-Input"]) == 0 {
		return nil, true
	}
	host, known := x.Proofs.Signer(now, r, res)
	return x.bySigner[host], known
}

// disproved returns the claim of a client that names a robot but isn't on the robot's lists. another is true
// if the client is on another robot's list, or has another robot's signature.
func (x *Robots) disproved(now time.Time, says *robot, another bool, client netip.Addr) claim {
	what := declared
	if another || len(says.Addresses) > 0 || x.listed(now, says) {
		what = forged
	}
	if len(says.Domains) == 0 || x.Proofs == nil {
		return what
	}
	switch name, known := x.Proofs.Host(now, client); {
	case !known:
		return noClaim
	case IsBelow(name, says.Domains):
		says.note(byDNS)
		return verified
	}
	return forged
}

// at returns the robot whose list contains an address, or nil. If there are several, crawlers take precedence
// over robots that fetch pages for people.
func (x *Robots) at(a netip.Addr) (of *robot) {
	if !x.given.Contains(a) && (x.Proofs == nil || !x.Proofs.Lists().all.Contains(a)) {
		return nil
	}
	for _, r := range x.all {
		if (of == nil || of.Kind == Person && r.Kind != Person) && x.has(r, a) {
			of = r
		}
	}
	return of
}

// has reports whether an address is on one of a robot's lists. Lists given by an administrator replace those
// of the operator.
func (x *Robots) has(r *robot, a netip.Addr) bool {
	if len(r.Addresses) > 0 || x.Proofs == nil {
		return r.given.Contains(a)
	}
	lists := x.Proofs.Lists()
	return slices.ContainsFunc(r.Lists, func(url string) bool { return lists.of[url].Networks.Contains(a) })
}

// listed reports whether all lists of a robot are available and up to date, which means that it has no other
// addresses.
func (x *Robots) listed(now time.Time, r *robot) bool {
	if len(r.Lists) == 0 || x.Proofs == nil {
		return false
	}
	lists := x.Proofs.Lists()
	return !slices.ContainsFunc(r.Lists, func(url string) bool { return now.Sub(lists.of[url].Confirmed) > UpToDate })
}

// IsBelow reports whether a name is below one of the domains.
func IsBelow(name string, domains []string) bool {
	for _, d := range domains {
		if rest, ok := strings.CutSuffix(name, d); ok && strings.HasSuffix(rest, ".") {
			return true
		}
	}
	return false
}
