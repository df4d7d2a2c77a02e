package limiter

// Rules are some of the gate's rules, as a set.
type Rules uint64

// The rules that a test can switch off, one by one, by Policy.Without. What each does is told where it is
// asked for; doc.go has the row that needs it.
const (
	ruleClimbs        Rules = 1 << iota // a request that runs longer than was guessed climbs the ladder
	ruleHalves                          // the upper half of a rung counts the next one's lower half
	ruleBeside                          // there is more room beside longer ones
	ruleDistrust                        // not for light ones, just after one was misjudged
	rulePasses                          // those within their share pass those ahead of it
	ruleWaits                           // a request that hardly computes takes no room
	ruleLeaves                          // a long request of a client ahead leaves a CPU to the others
	ruleLeavesLonger                    // but what is much longer does not count for that
	ruleLeavesMore                      // one more after a wait, or while a CPU is idle
	ruleUninvited                       // there is more room beside those that held a worker only, and compute then
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
	ruleProbes                          // one of an unknown kind is tried beside the others
	ruleProbePause                      // and none just after one that was not light
	ruleKept                            // some workers are kept for short requests
	ruleHoldersLeave                    // those that hardly compute leave workers to those that would
	ruleKeysHold                        // each key holds its part of the workers
	ruleStrangersPart                   // strangers hold half
	ruleMayCompute                      // but for one that computes beside a free CPU
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

// without tells whether a test has switched the rule off.
func (g *gate) without(r Rules) bool { return g.off&r != 0 }
