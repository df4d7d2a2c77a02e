package inspect

import (
	"fmt"
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
	client           *limiter.ClientRow // of an address: how it stands at the gate; nil: unknown
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
			Name: "orphans", Value: number(orphans),
			Means: "their client has left, and the backend works on: they keep their place until it is done",
		})
	}
	for i := range e.waiting[:min(3, len(e.waiting))] {
		o := &e.waiting[i].Outlook
		if !o.Waits {
			continue
		}
		if o.Site != "" {
			facts = append(facts, api.ExplainFact{Name: "site", Value: o.Site})
		}
		facts = append(facts, api.ExplainFact{Name: "waits for " + spanOf(o.Waited), Value: e.waiting[i].Target, Means: sentence(why(o) + before(o.Before))})
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
	for n, k := range e.allKeys() {
		r, ok := e.row(e.now, k)
		if !ok {
			facts = append(facts, api.ExplainFact{Name: k.Class + " " + k.ID, Value: "not known", Means: "it was not charged lately: it owes nothing"})
			continue
		}
		e.known = true
		if n == 0 && r.Client != nil {
			e.client = r.Client
		}
		facts = append(facts, e.account(k, &r))
		if r.Holds+r.Orphans > 0 {
			facts = append(facts, api.ExplainFact{
				Name: "workers of " + k.ID, Value: fmt.Sprintf("%d held by requests that are not short, %s", r.Holds, plural(r.Orphans, "orphan", "orphans")),
			})
		}
	}
	e.add("Accounts", facts...)
}

// account is what one key owes or has.
func (e *explanation) account(k limiter.Key, r *limiter.Row) api.ExplainFact {
	f := api.ExplainFact{Name: k.Class + " " + k.ID}
	used := fmt.Sprintf("it lately used %.2f CPUs with %.1f requests a second; its share is %.2f CPUs", r.CPU, r.Rate, e.budget(k.Class).CPUs)
	if r.Level < 0 {
		e.owing = append(e.owing, owing{k, -r.Level, r.Paid})
		f.Value = fmt.Sprintf("owes %s, paid in %s", cpuSeconds(-r.Level), span(r.Paid))
		f.Means = sentence(used + "; while the server is busy, its requests count as dearer than they are")
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
const mostKeys = 16

// standing tells whom an address is taken for.
func (e *explanation) standing() {
	if e.kind != "address" {
		return
	}
	facts := e.group()
	if c := e.client; c != nil {
		known := api.ExplainFact{Name: "known", Value: "no, a stranger", Means: "While others wait, it shares one turn with all strangers. After half a minute and five answers it is known, or at once by a cookie that it brings back."}
		if c.Known {
			known = api.ExplainFact{Name: "known", Value: "yes", Means: "It has been seen for a while, and has a turn of its own."}
		}
		facts = append(facts, known)
		if c.Lead > 0 {
			facts = append(facts, api.ExplainFact{
				Name: "ahead of its share", Value: cpuSeconds(c.Lead), Means: "From 0.50 CPU-s on it lets those go first who had less.",
			})
		}
	}
	if s := e.Requests.Policy().Standing; s != nil && len(e.keys) > 0 {
		if v, ok := s.Visits(e.now, e.keys[0].ID); ok {
			e.known = true
			facts = append(facts, visits(e.now, v)...)
		}
	}
	for i := range e.waiting {
		if u := &e.waiting[i]; u.Standing > 0 {
			facts = append(facts, api.ExplainFact{
				Name: "standing of a request that waits", Value: fmt.Sprintf("%g times its share", u.Standing), Means: sentence(evidenceWords(u.Evidence)),
			})
			break
		}
	}
	if e.Requests.Policy().Classifier.Exempts(e.address, anyURL()) {
		e.known = true
		facts = append(facts, api.ExplainFact{Name: "exempt", Value: "yes", Means: "The configuration exempts it: it is never charged and never waits."})
	}
	for _, p := range e.Pinned.All(e.now) {
		for _, k := range e.keys {
			if p.Key == k {
				facts = append(facts, api.ExplainFact{
					Name: "pinned", Value: fmt.Sprintf("%g times its share for %s", p.Standing, spanOf(p.Until.Sub(e.now))), Means: "Somebody gave it this standing.",
				})
			}
		}
	}
	e.add("As a client", facts...)
}

// group tells whom its last request counts among.
func (e *explanation) group() []api.ExplainFact {
	var name string
	switch {
	case len(e.waiting) > 0:
		name = e.waiting[0].Group.String()
	case len(e.running) > 0:
		name = e.running[0].Group.String()
	case len(e.reply.Recent) > 0:
		name = e.reply.Recent[0].Group
	default:
		return nil
	}
	f := api.ExplainFact{Name: "group", Value: name}
	if name == telemetry.Robot.String() {
		f.Means = "Its User-Agent says that it is a program."
	}
	return []api.ExplainFact{f}
}

func visits(now time.Time, v standing.Visits) []api.ExplainFact {
	facts := []api.ExplainFact{{
		Name: "standing of the address", Value: fmt.Sprintf("%g times its share", v.Standing), Means: sentence(evidenceWords(v.Evidence)),
	}, {
		Name: "visits", Value: fmt.Sprintf("for %s, in %s with pages", spanOf(now.Sub(v.First)), plural(v.Hours, "hour", "hours")),
		Means: fmt.Sprintf("Lately about %.0f pages and %.0f parts of them.", v.Pages, v.Parts),
	}}
	if v.ClientsBehind > 1 {
		facts = append(facts, api.ExplainFact{Name: "people behind it", Value: fmt.Sprintf("about %.0f", v.ClientsBehind), Means: "Its sessions show that; it weighs as much."})
	}
	return facts
}
