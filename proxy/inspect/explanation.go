package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tempomat/classify/standing"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// explanation is one in the making.
type explanation struct {
	*Inspector
	subject
	now              time.Time
	waiting, running []proxy.Underway
	waits, runs      int
	known            bool // anything is known of it
	owing            []owing
	shared           bool // several clients have the address
	exempt           bool // nothing needs to change for it
	reply            api.ExplainReply
}

// owing is a key in debt.
type owing struct {
	key  limiter.Key
	debt float64 // CPU-seconds
	paid float64 // seconds
}

func (e *explanation) add(title string, facts ...api.ExplainFact) {
	if len(facts) > 0 {
		e.reply.Sections = append(e.reply.Sections, api.ExplainSection{Title: title, Facts: facts})
	}
}

// present tells of its requests that wait or run.
func (e *explanation) present() {
	if e.waits+e.runs == 0 {
		return
	}
	e.known = true
	orphans := 0
	for i := range e.running {
		if e.running[i].Orphan {
			orphans++
		}
	}
	facts := []api.ExplainFact{
		{Name: "at the backend", Value: plural(e.runs, "request", "requests")},
		{Name: "waiting", Value: plural(e.waits, "request", "requests")},
	}
	if orphans > 0 {
		facts = append(facts, api.ExplainFact{
			Name: "abandoned", Value: number(orphans),
			Means: "Their clients have disconnected, but the backend still works on them: they hold their workers until it is done.",
		})
	}
	if o := e.next(); o != nil && o.Site != "" {
		facts = append(facts, api.ExplainFact{Name: "site", Value: o.Site})
	}
	e.add("At this moment", facts...)
}

// before says how many go first.
func before(n int) string {
	switch {
	case n < 0:
		return ""
	case n == 0:
		return "; it goes next of its size"
	case n == 1:
		return "; one goes before it"
	}
	return fmt.Sprintf("; %d go before it", n)
}

// accounts tells what its keys owe.
func (e *explanation) accounts() {
	var facts []api.ExplainFact
	for _, k := range e.allKeys() {
		r, ok := e.row(e.now, k)
		if !ok {
			facts = append(facts, api.ExplainFact{Name: k.Class + " " + k.ID, Value: "owes nothing", Means: "It was not charged recently."})
			continue
		}
		e.known = true
		facts = append(facts, e.account(k, &r))
	}
	e.add("Accounts", facts...)
}

// account is what one key owes or has.
func (e *explanation) account(k limiter.Key, r *limiter.Row) api.ExplainFact {
	f := api.ExplainFact{Name: k.Class + " " + k.ID}
	used := fmt.Sprintf("recently %.1f requests a second were charged %.2f CPUs; the share is %.2f CPUs", r.Rate, r.CPU, e.budget(k.Class).CPUs)
	if r.Holds > 0 {
		used += "; " + plural(r.Holds, "worker is", "workers are") + " held by requests that are not short"
	}
	if r.Orphans > 0 {
		used += "; " + plural(r.Orphans, "abandoned request runs", "abandoned requests run") + " on"
	}
	if r.Level < 0 {
		e.owing = append(e.owing, owing{k, -r.Level, r.Paid})
		f.Value = fmt.Sprintf("owes %s, paid in %s", cpuSeconds(-r.Level), span(r.Paid))
		f.Means = sentence(used + "; while the server is busy, its requests count as more expensive than they are")
		return f
	}
	f.Value, f.Means = "has "+cpuSeconds(r.Level)+" saved", sentence(used)
	return f
}

// allKeys are those that it has for certain, and those of its requests under way.
func (e *explanation) allKeys() []limiter.Key {
	keys := append([]limiter.Key{}, e.keys...)
	seen := make(map[limiter.Key]bool, len(keys))
	for _, k := range keys {
		seen[k] = true
	}
	if e.kind != "address" && e.kind != "request" {
		return keys
	}
	for _, all := range [][]proxy.Underway{e.waiting, e.running} {
		for i := range all {
			for _, k := range all[i].Keys {
				if !seen[k] && len(keys) < mostKeys {
					seen[k] = true
					keys = append(keys, k)
				}
			}
		}
	}
	return keys
}

// mostKeys is how many keys are shown.
const mostKeys = 8

// standing tells what an address counts as, once, and what that rests on.
func (e *explanation) standing() {
	if e.kind != "address" || len(e.keys) == 0 {
		return
	}
	var facts []api.ExplainFact
	r, charged := e.row(e.now, e.keys[0])
	var past *standing.Visits
	if s := e.Requests.Policy().Standing; s != nil {
		if v, ok := s.Visits(e.now, e.keys[0].ID); ok {
			past = &v
			e.known = true
		}
	}
	if as, why := e.countsAs(r.Client, past); as != "" {
		facts = append(facts, api.ExplainFact{Name: "counts as", Value: as, Means: why})
	}
	if past != nil {
		facts = append(facts, visits(e.now, past)...)
		e.shared = e.shared || past.ClientsBehind > 1
	}
	if charged && r.Client != nil && r.Client.Lead > 0 {
		facts = append(facts, api.ExplainFact{
			Name: "ahead of its share", Value: cpuSeconds(r.Client.Lead), Means: "From 0.50 CPU-s on it lets clients go first that had less.",
		})
	}
	e.add("This address", facts...)
}

// countsAs is what an address counts as and why. Nothing else of an explanation says it. What is
// certain for all of its requests comes first, then what those count as that are under way, then
// what is remembered of it. Several clients may share an address: then each request counts by its
// own.
func (e *explanation) countsAs(at *limiter.ClientRow, past *standing.Visits) (as, why string) {
	if e.Requests.Policy().Classifier.Exempts(e.address, anyURL()) {
		e.known, e.exempt = true, true
		return "exempt", "The configuration exempts it: it is never charged and never waits."
	}
	for _, p := range e.Pinned.All(e.now) {
		if slices.Contains(e.keys, p.Key) {
			return "pinned", fmt.Sprintf("An administrator gave it %g times its share for another %s.", p.Standing, spanOf(p.Until.Sub(e.now)))
		}
	}
	groups, one := e.groups()
	if len(groups) > 1 {
		e.shared = true
		return "several clients", "Of its requests at this moment, " + strings.Join(groups, ", ") + ". Each counts by its own cookies."
	}
	proves := past != nil && past.Evidence.Proves()
	switch {
	case one != nil && one.Group == telemetry.Known:
		why = "It has a turn of its own"
		if words := evidenceWords(one.Evidence); one.Evidence != 0 {
			why += ": " + words
		}
		return "a known client", why + "."
	case one != nil:
		return groupWords(one.Group.String(), proves)
	case at != nil && at.Known:
		return "a known client", "It has been seen for a while, and has a turn of its own."
	case proves:
		return "a known client", "It has a turn of its own: " + evidenceWords(past.Evidence) + "."
	case len(e.reply.Recent) > 0:
		return groupWords(e.reply.Recent[0].Group, false)
	case at != nil || past != nil:
		return groupWords(telemetry.Stranger.String(), false)
	}
	return "", ""
}

// groups counts its requests under way by what they count as; one is one of them.
func (e *explanation) groups() (counts []string, one *proxy.Underway) {
	var n [telemetry.Groups]int
	for _, all := range [][]proxy.Underway{e.running, e.waiting} {
		for i := range all {
			one = &all[i]
			n[one.Group]++
		}
	}
	for _, g := range telemetry.ShownGroups() {
		if n[g] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[g], g))
		}
	}
	return counts, one
}

// groupWords says what a group is; proves tells that other requests of the address bring evidence.
func groupWords(group string, proves bool) (as, why string) {
	switch group {
	case telemetry.Robot.String():
		return "a robot", "Its User-Agent says that it is a program."
	case telemetry.Newcomer.String():
		return "a newcomer", "It came back with the cookie that newcomers get, and goes first among strangers."
	case telemetry.Stranger.String():
		why = "While others wait, it shares one turn with all unknown clients. It becomes known after half a minute and five answers, or at once by a cookie of the site that it brings back."
		if proves {
			why += " Other requests from this address have shown that; those at this moment have not."
		}
		return "a stranger", why
	case telemetry.Known.String():
		return "a known client", "It has a turn of its own."
	}
	return group, ""
}

// visits tells what is remembered of those of an address.
func visits(now time.Time, v *standing.Visits) (facts []api.ExplainFact) {
	if v.Pages+v.Parts >= 1 {
		facts = append(facts, api.ExplainFact{
			Name: "visits", Value: "for " + spanOf(now.Sub(v.First)), Means: fmt.Sprintf("Recently about %.0f pages and %.0f parts of pages.", v.Pages, v.Parts),
		})
	}
	if v.ClientsBehind > 1 {
		facts = append(facts, api.ExplainFact{Name: "people behind it", Value: fmt.Sprintf("about %.0f", v.ClientsBehind), Means: "Their sessions show that; its share is multiplied by as much."})
	}
	return facts
}
