//go:build ablation

package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"tempomat/limiter"
)

// worth maps each rule of the gate to the rows that need it: without the rule, one of them is missed or gets
// worse.
func worth() map[string][]string {
	return map[string][]string{
		"Climbs":        {"longjobs-flat", "exports60s-3conn-pages300ms"},
		"Halves":        {"nat+dist120", "new+dist120-samepath"},
		"Beside":        {"mixed", "nat+crawl1", "nat+dist120-1cpu"},
		"Distrust":      {"heavy+again-40+redirect", "misguess8addr", "train3s-8addr"},
		"Passes":        {"dbcrawl-300ms-300ms", "flat1+steps"},
		"Waits":         {"halves-20conn-2.5s-pages100ms", "polls120s-8conn-pages800ms", "chunks-24x1-cold", "poll-20+crawl"},
		"Leaves":        {"dear-people300ms-crawl5s", "dear-people150ms-crawl2s"},
		"LeavesLonger":  {"exports60s-3conn-pages300ms", "exports60s-20conn-pages300ms"},
		"LeavesMore":    {"a thousandth"},
		"Uninvited":     {"2cpu-150workers-pages800ms-20x50+10s-spread=true"},
		"Debt":          {"flash100-150ms+crawl", "flash500-60ms+crawl"},
		"Inherits":      {"flatnat-1cpu-crowded", "natflat20+crawler-inside-cookiesfalse"},
		"Standing":      {"flat120", "flat120think"},
		"Behind":        {"flatnat-4cpu"},
		"Faces":         {"natflat20+flatcrawler-inside-cookiesfalse"},
		"Lead":          {"natflat20+crawler-inside-cookiesfalse", "flat+follow-1x40+redirect"},
		"Strangers":     {"flatshot", "stream-40x1-cold"},
		"OthersPart":    {"new+posing120"},
		"Credit":        {"new+posing120"},
		"Newest":        {"new+lightshot100", "res-flat-13/s"},
		"Stale":         {"heavy+follow-roam-10x4+redirect"},
		"Fewest":        {"new+dist120-samepath"},
		"Passed":        {"heavy+again-40+redirect", "heavy+follow-40+redirect"},
		"Parts":         {"new+shot40-parts"},
		"Probes":        {"stream-24x1-cold", "hangup-8addr-30ms-cold"},
		"ProbePause":    {"misguess8addr"},
		"Kept":          {"stream-40x1", "poll-20"},
		"HoldersLeave":  {"2cpu-16workers-pages3000ms-20x5+0.001s-spread=true"},
		"KeysHold":      {"waiting-people+holds-20"},
		"StrangersPart": {"waiting-people+strangers-hold"},
		"MayCompute":    {"polls120s-8conn-pages800ms", "exports60s-3conn-pages100ms-1cpu"},
		"Misjudges":     {"read-spool-32MB-1x24-cold", "misguess8addr"},
		"Reguesses":     {"misguess-control", "longjobs-light"},
		"Grows":         {"db-20-300ms", "db-60-300ms"},
		"Slack":         {"20x5ms+0.3s-150w-queue"},
		"SitesLeave":    {"the smallest has the most expensive pages"},
		"SitesLead":     {"a thousandth"},
		"SitesIdle":     {"a thousandth"},
	}
}

// Without a rule, a row counts as worse if one of these figures changes by so much.
const (
	worseGood   = 0.05 // of the requests: this part fewer are answered within a second
	worseFailed = 0.05 // this part more of them fail
	worseP95    = 1.25 // p95 grows to this multiple
	worseMs     = 50   // and by this much
)

// without returns the row with some rules off.
func (r row) without(rules limiter.Rules) row {
	r.change = func(p *limiter.Policy) { p.Without |= rules }
	return r
}

// medians returns the medians of three seeds for each of a row's kinds of clients.
func (r row) medians() (map[string]result, error) {
	all := map[string]result{}
	runs := map[string][]result{}
	for seed := range uint64(3) {
		got, err := playOnce(r.Scenario, seed+1, limiter.Fair, demanded(r.Scenario))
		if err != nil {
			return nil, err
		}
		for kind, x := range got {
			runs[kind] = append(runs[kind], x)
		}
	}
	for kind, of := range runs {
		all[kind] = median(of)
	}
	return all, nil
}

// needs tells how the row gets worse without a rule; empty: it doesn't.
func (r row) needs(rule limiter.Rules) (worse string, err error) {
	missed, _, err := r.isMissed()
	if err != nil {
		return "", err
	}
	if !missed {
		if missed, why, err := r.without(rule).isMissed(); err != nil || missed {
			return why, err
		}
	}
	with, err := r.medians()
	if err != nil {
		return "", err
	}
	without, err := r.without(rule).medians()
	for _, kind := range slices.Sorted(maps.Keys(with)) {
		a, b := with[kind], without[kind]
		if b.good < a.good-worseGood || b.failed > a.failed+worseFailed || b.p95 > worseP95*a.p95+worseMs {
			worse += fmt.Sprintf("%s: good %.0f -> %.0f %%, p95 %.0f -> %.0f ms, failed %.0f -> %.0f %%; ",
				kind, 100*a.good, 100*b.good, a.p95, b.p95, 100*a.failed, 100*b.failed)
		}
	}
	return strings.TrimSuffix(worse, "; "), err
}

// TestAblation plays rows without each rule: a rule without which no row gets worse is not needed. The rows of
// a rule come first; with TEMPOMAT_WORTH=all, all others are played after them.
func TestAblation(t *testing.T) {
	all := askedForWorth(t)
	table, names := rows(true), []string(nil)
	if all {
		names = slices.Sorted(maps.Keys(rows(false)))
	}
	rules, mine := limiter.AllRules(), worth()
	lines, missing := make([]string, len(rules)), make([]string, len(rules))
	parallel(len(rules), func(i int) {
		rule := rules[i]
		found := false
		for _, name := range append(slices.Clone(mine[rule.Name]), names...) {
			r, ok := table[name]
			if !ok {
				missing[i] += "no row is called " + name + "; "
				continue
			}
			worse, err := r.needs(rule.Rule)
			if err != nil {
				missing[i] += err.Error()
			}
			if worse != "" {
				line := fmt.Sprintf("%-14s %-40s %s", rule.Name, name, worse)
				lines[i] += line + "\n"
				if found = true; !all {
					break
				}
				t.Log(line) // all rows take long
			}
		}
		if !found {
			missing[i] += "no row is worse without it"
		}
	})
	for i, rule := range rules {
		if _, ok := mine[rule.Name]; !ok {
			t.Errorf("%s: no row is listed for this rule", rule.Name)
		}
		if missing[i] != "" {
			t.Errorf("%s: %s", rule.Name, missing[i])
		}
	}
	t.Log("\n" + strings.Join(lines, ""))
}
