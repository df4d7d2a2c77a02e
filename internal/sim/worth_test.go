package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tempomat/limiter"
)

// TEMPOMAT_WORTH=1 asks whether rules are worth having: rows are played without each of them.
// =all plays all rows without each rule.
func askedForWorth(t *testing.T) (all bool) {
	t.Helper()
	mode := os.Getenv("TEMPOMAT_WORTH")
	if mode == "" {
		t.Skip("TEMPOMAT_WORTH=1 asks for it")
	}
	return mode == "all"
}

// row is one of any table, with how it is judged.
type row struct {
	Scenario
	judge func(s Scenario, seed uint64) (missed []string, figures string, err error)
}

// rows are those of all tables. Of the grid of hogs that are those that are always played, or all.
func rows(grid bool) map[string]row {
	all := map[string]row{}
	for _, g := range append(groups(), group{"", Scenarios()}, group{"", Machines()}, group{"", Redirects()}) {
		for _, s := range g.all {
			all[s.Name] = row{s, judgeDemands}
		}
	}
	for _, s := range Ordinary(true) {
		all[s.Name] = row{s, judgeHarm}
	}
	for _, s := range sitesOfShares() {
		all[s.Name] = row{s, judgeShares}
	}
	all[aThousandth().Name] = row{aThousandth(), judgeThousandth}
	for _, b := range sweep(grid, false) {
		all[b.name()] = row{b.scenario(), judgeBeside}
	}
	return all
}

func judgeDemands(s Scenario, seed uint64) (missed []string, figures string, err error) {
	got, err := playOnce(s, seed, limiter.Fair, demanded(s))
	if err != nil {
		return nil, "", err
	}
	for _, d := range s.Demands {
		r := got[d.Kind]
		figures += fmt.Sprintf(" %s %.0f %% good, p95 %.0f ms, %.0f %% failed;", d.Kind, 100*r.good, r.p95, 100*r.failed)
	}
	return s.missed(got), figures, nil
}

func judgeHarm(s Scenario, seed uint64) (missed []string, figures string, err error) {
	all, missed, err := compareOrdinary(s, seed)
	for _, h := range all {
		figures += fmt.Sprintf(" %s %.1f/s, p95 %.0f ms, %.0f %% failed;", h.kind, h.with.rate, h.with.p95, 100*h.with.failed)
	}
	return missed, figures, err
}

func judgeBeside(s Scenario, seed uint64) (missed []string, figures string, err error) {
	kinds := []string{"new", "human"}
	with, err := playOnce(s, seed, limiter.Fair, kinds)
	if err != nil {
		return nil, "", err
	}
	without, err := playOnce(s, seed, limiter.Observe, kinds)
	for _, k := range kinds {
		figures += fmt.Sprintf(" %s %.0f %% failed;", k, 100*with[k].failed)
		if with[k].failed > without[k].failed+0.1 {
			missed = append(missed, fmt.Sprintf("%.0f %% of %s fail, and %.0f %% without a gate", 100*with[k].failed, k, 100*without[k].failed))
		}
	}
	return missed, figures, err
}

// isMissed tells whether two of three seeds miss what a row demands, and what one of them got.
func (r row) isMissed() (yes bool, why string, err error) {
	n := 0
	for seed := range uint64(3) {
		missed, figures, err := r.judge(r.Scenario, seed+1)
		if err != nil {
			return false, "", err
		}
		if len(missed) > 0 {
			n++
			why = strings.Join(missed, "; ")
		} else if why == "" {
			why = strings.Trim(figures, " ;")
		}
		if n == 2 || seed == 1 && n == 0 {
			break
		}
	}
	return n >= 2, why, nil
}
