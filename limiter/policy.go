package limiter

import (
	"cmp"
	"time"

	"tempomat/limiter/account"
)

// Mode is how debt is acted on. See the package documentation.
type Mode uint8

// The modes.
const (
	Observe     Mode = iota // charge and count; delay no request
	Cooperative             // run at once, then hold the response until the debt is paid
	Cap                     // wait before the backend until the debt is paid
	Fair                    // wait only while the backend has no room, in an order that debt decides
)

func (m Mode) String() string {
	switch m {
	case Cooperative:
		return "cooperative"
	case Cap:
		return "cap"
	case Fair:
		return "fair"
	case Observe:
	}
	return "observe"
}

// DefaultMemory is the longest time that a key takes to pay off its debt,
// unless the policy says otherwise.
const DefaultMemory = 120 * time.Second

// Policy is what the limiter is told to do. It is replaced as a whole.
type Policy struct {
	Mode    Mode
	Shadow  bool        // judge and count, never act
	Classes []ClassInfo // at most MaxKeys; the first one is the client
	// Sites are those that are told apart, of different names; none: all requests are of one.
	Sites []SiteInfo
	// OtherSites is the share of all requests together that are of none of them; 0 is 1.
	OtherSites float64
	// MaxHold is the longest that a request or its response is held.
	MaxHold time.Duration
	// MaxHeld bounds how many requests are held at once. One client may use all of that until
	// others want it, because it may be an office: a full queue refuses requests of the client
	// with the most.
	MaxHeld int
	// Memory bounds debt: no key owes more than it earns in this time.
	// Zero is DefaultMemory.
	Memory time.Duration
	// Without switches rules of the gate off. It is for tests alone, to see what each is worth.
	Without Rules
	// Gate is the queue before the backend, for Fair, and for Observe, which tells
	// what Fair would have done.
	Gate GateOptions
}

// activePolicy is a Policy made ready for the request path.
type activePolicy struct {
	Policy
	terms []*account.Terms // one for each of Classes
	gated bool             // requests go through the gate
}

func compile(p Policy, sidecars int) *activePolicy {
	if p.Memory <= 0 {
		p.Memory = DefaultMemory
	}
	p.Gate = p.Gate.Complete()
	c := &activePolicy{Policy: p, gated: p.Mode == Fair || p.Mode == Observe}
	for _, info := range p.Classes {
		b := info.Budget
		memory := p.Memory
		if b.External {
			b.CPUs, b.Burst, b.Cap, memory = 1, 0, true, longestExternal
		}
		if b.Shadow {
			b.Workers = 0 // its keys hold any part
		}
		capped := p.Mode == Cap || (b.Cap && p.Mode != Observe)
		c.terms = append(c.terms, &account.Terms{
			Class:     info.Name,
			Rate:      b.CPUs,
			Burst:     b.Burst.Seconds() / float64(sidecars),
			Floor:     -b.CPUs * memory.Seconds(),
			External:  b.External,
			LocalOnly: b.LocalOnly,
			Cap:       capped,
			Hold:      p.Mode == Cooperative && !capped,
			Shadow:    p.Shadow || b.Shadow,
			Aside:     b.Shadow,
			Plain:     !c.gated || capped && !p.Shadow && !b.Shadow,
			Workers:   float32(b.Workers),
			MaxHold:   cmp.Or(b.MaxHold, p.MaxHold),
		})
	}
	return c
}

// longestExternal is the longest that peers can have a key of an external class wait.
const longestExternal = 24 * time.Hour

// standing bounds what a client's share is multiplied by.
func (p *activePolicy) standing(given float64) float64 {
	if given <= 0 || !p.gated {
		return 1
	}
	return max(0.5, min(given, 8))
}

// SetPolicy replaces the policy from now on. Debts, queues and running requests
// survive: a key keeps its level, cut to the new burst, and what it earned until
// now it earned at the old rate. Keys of classes that are gone stay as they are
// until they are evicted.
func (l *Limiter) SetPolicy(now time.Time, p Policy) {
	l.policyMu.Lock()
	defer l.policyMu.Unlock()
	l.applyLocked(now, p)
}

func (l *Limiter) applyLocked(now time.Time, p Policy) {
	c := compile(p, l.sidecars)
	l.policy.Store(c)
	l.table.SetTerms(l.since(now), c.terms)
	l.gate.setPolicy(c)
	l.requestAdvance()
}

// MaxKeys is the most classes that one request can be charged to.
const MaxKeys = 8

// Key is one member of a class: {slash24, 203.0.113.0/24}.
type Key = account.Key

// Budget is what a class lets each of its keys use.
type Budget struct {
	// CPUs is the rate at which a key earns credit, in CPU-seconds per second.
	CPUs float64
	// Burst is the most CPU time that a key can have saved up. Zero is allowed:
	// a key then has exactly what it earns.
	Burst time.Duration
	// Cap makes the class a hard ceiling in every mode but Observe: a request waits
	// before the backend until the debt of its key is paid.
	Cap bool
	// Shadow judges and counts, and never acts: the debt of a key of the class neither
	// delays its requests nor makes them more expensive at the gate, and it may hold any number of
	// workers. The first class is still whom the gate takes for a client.
	Shadow bool
	// External makes the class one that nothing is charged to here: its keys wait until
	// when peers say, by Raise. CPUs, Burst and Cap mean nothing then.
	External bool
	// LocalOnly keeps the class from peers: they know its keys by other names.
	LocalOnly bool
	// Workers is the part of the backend's workers that are not kept for short
	// requests which one key of the class may hold with requests that are not
	// short: above 0 to 1; zero is any part.
	Workers float64
	// MaxHold is the longest that a request waits for the class's sake before it is
	// refused; zero is the policy's.
	MaxHold time.Duration
}

// Rules are some of the gate's rules, as a set.
type Rules uint64

// The rules that a test can switch off, one by one, by Policy.Without. Each is explained at the branch
// that checks it; doc.go has the row that needs it.
const (
	ruleClimbs        Rules = 1 << iota // a request that runs longer than was guessed climbs the ladder
	ruleHalves                          // the upper half of a rung counts the next one's lower half
	ruleBeside                          // there is more room next to longer ones
	ruleDistrust                        // not for light ones, just after one was misjudged
	rulePasses                          // those within their share pass those ahead of it
	ruleWaits                           // a request that computes little takes no room
	ruleLeaves                          // a long request of a client ahead leaves a CPU to the others
	ruleLeavesLonger                    // but what is much longer does not count for that
	ruleLeavesMore                      // one more after a wait, or while a CPU is idle
	ruleUninvited                       // there is more room next to those that held a worker only, and compute then
	ruleDebt                            // debt makes a request count for more
	ruleInherits                        // a client that owes nothing bears a quarter of its networks' debt
	ruleStanding                        // a client's standing multiplies its share
	ruleBehind                          // an address weighs as the clients behind it
	ruleFaces                           // an address without sessions is divided by its User-Agents
	ruleLead                            // what a client had beyond its share is in its rank
	ruleStrangers                       // clients that are not known share one turn
	ruleOthersPart                      // strangers have half of all others' shares at least
	ruleCredit                          // what they had less counts for a few requests only
	ruleNewest                          // the newest of them goes first once one waited for a second
	ruleStale                           // those that waited for a second go after the others
	ruleFewest                          // those with fewer answers go first
	rulePassed                          // those that came back with a cookie do
	ruleParts                           // and short parts of a page that was just served
	ruleProbes                          // one of an unknown kind is tried next to the others
	ruleProbePause                      // and none just after one that was not light
	ruleKept                            // some workers are kept for short requests
	ruleHoldersLeave                    // requests that compute little leave workers to those that compute
	ruleKeysHold                        // each key holds its part of the workers
	ruleStrangersPart                   // strangers hold half
	ruleMayCompute                      // except for one that computes next to a free CPU
	ruleSlack                           // no part of the workers binds while many are free
	ruleMisjudges                       // requests that were not short use up what is kept
	ruleReguesses                       // a request that waits moves as its cost becomes known
	ruleGrows                           // the room follows the CPU use
	ruleSitesLeave                      // a site that had more than its part leaves room
	ruleSitesAtOnce                     // a site is charged with a long request as that runs
	ruleSitesLead                       // no site is ahead by more than 20 s of the machine
	ruleSitesIdle                       // but not while a CPU is idle
)

// RuleName is a rule and what it is called.
type RuleName struct {
	Rule Rules
	Name string
}

// AllRules are all of them.
func AllRules() (all []RuleName) {
	for i, name := range [...]string{
		"Climbs", "Halves", "Beside", "Distrust", "Passes", "Waits", "Leaves", "LeavesLonger", "LeavesMore", "Uninvited",
		"Debt", "Inherits", "Standing", "Behind", "Faces", "Lead", "Strangers", "OthersPart", "Credit", "Newest", "Stale", "Fewest",
		"Passed", "Parts", "Probes", "ProbePause", "Kept", "HoldersLeave", "KeysHold", "StrangersPart", "MayCompute", "Slack", "Misjudges", "Reguesses",
		"Grows", "SitesLeave", "SitesAtOnce", "SitesLead", "SitesIdle",
	} {
		all = append(all, RuleName{1 << i, name})
	}
	return all
}

// without reports whether a test has switched the rule off.
func (g *gate) without(r Rules) bool { return g.off&r != 0 }
