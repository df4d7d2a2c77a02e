// Package robots finds the accounts of robots. A robot is one client, whatever its addresses,
// if it is verified:
//
//   - by its address, which is in a list that its operator publishes, or that an administrator gave;
//   - by the name of its address, which is below a domain of the operator's;
//   - by a signature of the request with the operator's key.
//
// A robot that is proved has an account instead of those of its networks and its program. One
// that is known by its name alone has one in addition to these, and because anyone can make up
// names, all of those together count as one client. A request whose name is another's than its
// proof is forged.
//
// What is known of each robot is a file in the folder known; see [Robot].
package robots

import (
	"errors"
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

// Proofs are what others say of where robots come from. They never wait.
type Proofs interface {
	// Host is the name of an address that the name leads back to. It is unknown until DNS was
	// asked; if there is no such name it is known and empty.
	Host(now time.Time, a netip.Addr) (name string, known bool)
	// Lists are what the operators publish.
	Lists() *Lists
	// Signer is the host whose key signed a request; empty: none that is known.
	Signer(now time.Time, r *http.Request, res *classify.Result) string
}

// Config is what New needs.
type Config struct {
	Class    string   // what the class of robots is called
	Replaces []string // classes that a proved robot is not charged to: those of networks and User-Agents
	Robots   []Robot  // a User-Agent is that of the first that has it
	Proofs   Proofs   // nil: addresses that were given prove, and nothing else
}

// Others is the key of all robots together that are known only by the name that they give
// themselves. No robot has this name, because no family has parentheses.
const Others = "(others)"

// fetcherStanding is what the share of a fetcher for people is multiplied by: it goes before
// crawlers, and behind people, who have twice theirs as soon as a cookie is known.
const fetcherStanding = 1.5

// Robots finds the accounts of robots. It never changes, and it is safe for concurrent use.
type Robots struct {
	Config
	all      []*robot
	byAgent  map[string][]named
	bySigner map[string]*robot
	given    classify.PrefixSet // all addresses that were given
}

// named is a name of a robot in its User-Agents.
type named struct {
	text string
	of   *robot
}

type robot struct {
	Robot
	given  classify.PrefixSet
	proved [proofs]atomic.Bool // by what, since this configuration is in force
}

// proof is what a robot was proved by.
type proof int

const (
	byAddress proof = iota // it is on a list
	byDNS
	bySignature
	proofs = iota
)

func (p proof) String() string { return [proofs]string{"its list", "DNS", "its signature"}[p] }

// note remembers a proof. Most requests of a robot are proved as the one before.
func (r *robot) note(p proof) {
	if !r.proved[p].Load() {
		r.proved[p].Store(true)
	}
}

// New makes Robots. Its error names everything that is wrong with c.
func New(c Config) (*Robots, error) {
	x := &Robots{Config: c, byAgent: make(map[string][]named), bySigner: make(map[string]*robot)}
	var faults []error
	var given []netip.Prefix
	for _, r := range c.Robots {
		addresses, err := classify.NewPrefixSet(r.Addresses)
		if err != nil {
			faults = append(faults, fmt.Errorf("robot %q: %w", r.Name, err))
		}
		of := &robot{Robot: r, given: addresses}
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
	x.given, _ = classify.NewPrefixSet(given) // what is wrong with it was told
	return x, errors.Join(faults...)
}

// named is the robot whose name a User-Agent has; nil: none that is known. Several have the same family, as
// OAI-SearchBot and Claude-SearchBot.
func (x *Robots) named(family, agent string) *robot {
	all := x.byAgent[family]
	if len(all) == 1 {
		return all[0].of
	}
	for _, n := range all {
		if strings.Contains(strings.ToLower(agent), n.text) {
			return n.of
		}
	}
	return nil
}

// AccountOf is the account that a User-Agent, or a family of them, has if it says the truth;
// false: it does not say that it is a robot.
func (x *Robots) AccountOf(agent string) (limiter.Key, bool) {
	name := classify.Family(agent)
	if of := x.named(name, agent); of != nil {
		name = of.Account()
	} else if !classify.SaysRobot(agent) {
		return limiter.Key{}, false
	}
	return limiter.Key{Class: x.Class, ID: name}, true
}

// ProofOf says by what the robots of an account were proved, and when their operators last had
// their lists so; empty: it is no account of theirs. x may be nil.
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

// claim is what is known of a request that says whose robot it is.
type claim uint8

const (
	noClaim  claim = iota // it does not claim to be a robot, or that is not verified yet
	declared              // it claims to be a robot, which can't be verified
	verified
	forged // it is not the one that it says it is
)

// Recognise finds the account of a classified request's robot, and makes that its first key. It
// reports whether there is one; its standing, which is for persons, is then not judged.
func (x *Robots) Recognise(now time.Time, r *http.Request, res *classify.Result) bool {
	if res.Exempt || len(res.Keys()) == 0 {
		return false
	}
	agent := ""
	if lines := r.Header["User-Agent"]; len(lines) > 0 {
		agent = lines[0]
	}
	is, what := x.judge(now, x.named(res.Agent, agent), r, res)
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

// admit makes the account of a name the first key, and that of the pool that it is in, if any, the second
// one. It is false if there is no room, because all possible classes are in use.
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

// judge tells what to make of the robot that a request's User-Agent names, if any, and whose
// request it is.
func (x *Robots) judge(now time.Time, says *robot, r *http.Request, res *classify.Result) (*robot, claim) {
	of, by := x.signer(now, r, res), bySignature
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
	case says == nil, says == of: // without a robot's name it has that of a browser, or of a program
	case of != nil && of.Operator == says.Operator && of.Operator != "":
		if of.Kind == Person { // no crawler is more by its operator's other addresses
			of = says
		}
	default:
		return says, x.disproved(now, says, of != nil, res.Client)
	}
	of.note(by)
	return of, verified
}

// signer is the robot whose key signed a request; nil if there is none.
func (x *Robots) signer(now time.Time, r *http.Request, res *classify.Result) *robot {
	if x.Proofs == nil || len(r.Header["Signature-Input"]) == 0 {
		return nil
	}
	return x.bySigner[x.Proofs.Signer(now, r, res)]
}

// disproved tells what to make of a robot that is on no list of its own. If it is on another's,
// it is forged anyway.
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

// at is the robot whose list an address is on, nil if it is on none; of several a crawler rather
// than what fetches for people.
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

// has reports whether an address is on a list of a robot's: those that were given, instead of
// those that its operator publishes.
func (x *Robots) has(r *robot, a netip.Addr) bool {
	if len(r.Addresses) > 0 || x.Proofs == nil {
		return r.given.Contains(a)
	}
	lists := x.Proofs.Lists()
	return slices.ContainsFunc(r.Lists, func(url string) bool { return lists.of[url].Networks.Contains(a) })
}

// listed reports whether all lists of a robot are there and up to date, so it has no other
// addresses.
func (x *Robots) listed(now time.Time, r *robot) bool {
	if len(r.Lists) == 0 || x.Proofs == nil {
		return false
	}
	lists := x.Proofs.Lists()
	return !slices.ContainsFunc(r.Lists, func(url string) bool { return now.Sub(lists.of[url].Confirmed) > upToDate })
}

// IsBelow reports whether a name lies below one of some domains.
func IsBelow(name string, domains []string) bool {
	for _, d := range domains {
		if rest, ok := strings.CutSuffix(name, d); ok && strings.HasSuffix(rest, ".") {
			return true
		}
	}
	return false
}
