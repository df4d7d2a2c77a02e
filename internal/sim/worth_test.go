package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tempomat/limiter"
)

// TEMPOMAT_WORTH=1 asks whether rules are worth having: rows are played without each of them, and with the
// code broken on purpose. =all plays all rows without each rule.
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

// mutation is the code broken on purpose: the row is to be missed then.
type mutation struct {
	what, file, is, becomes, row string
}

func mutations() []mutation {
	return []mutation{
		{
			"the machine's CPU use is taken for the backend's", "internal/sim/proxy.go",
			"if p.blind { // it was no more than that", "if true {", "15x8ms+.6s-busy-prefork",
		},
		{
			"estimates are not held against what is used", "cpuaccount/correct.go",
			"case present > most:", "case present > 1e9*most:", "60x5ms+1s-150w-queue",
		},
		{
			"no worker is kept for short requests", "limiter/workers.go",
			"n.longest = max(1, n.workers-kept, min(n.cpus, n.workers-1))", "n.longest = n.workers + 0*kept", "stream-40x1",
		},
		{
			"parts of the workers bind while many are free", "limiter/workers.go",
			"if g.hasSlack() && !g.without(ruleSlack) {", "if false && g.hasSlack() {", "20x5ms+0.3s-150w-queue",
		},
		{
			"parts do not bind while four are free", "limiter/workers.go",
			"slackTimes*(n.workers-n.longest+n.cpus)", "0*slackTimes*n.workers+2", "read-spool-32MB-1x24-cold",
		},
		{
			"a full queue sheds the light first", "limiter/gate.go",
			"return t.level.rung() > o.level.rung()", "return t.level.rung() < o.level.rung()", "new+full-queue",
		},
	}
}

// TestMutations breaks the code, in a way that somebody once did or might, and plays the row that is to notice.
func TestMutations(t *testing.T) {
	askedForWorth(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(mutations()))
	parallel(len(lines), func(i int) {
		m := mutations()[i]
		out, missed, err := m.play(t.TempDir(), root)
		lines[i] = fmt.Sprintf("%-50s %-28s %s", m.what, m.row, out)
		if err != nil {
			t.Errorf("%s: %v\n%s", m.what, err, out)
		} else if !missed {
			t.Errorf("%s: %s does not notice", m.what, m.row)
		}
	})
	t.Log("\n" + strings.Join(lines, "\n"))
}

// play compiles the mutation, and plays its row.
func (m mutation) play(dir, root string) (out string, missed bool, err error) {
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		return "", false, err
	}
	if strings.Count(string(source), m.is) != 1 {
		return "", false, fmt.Errorf("%s does not have it once: %s", m.file, m.is)
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replaces, err := json.Marshal(map[string]map[string]string{"Replace": {path: mutated}})
	if err != nil {
		return "", false, err
	}
	if err = errors.Join(
		os.WriteFile(mutated, []byte(strings.Replace(string(source), m.is, m.becomes, 1)), 0o600),
		os.WriteFile(overlay, replaces, 0o600),
	); err != nil {
		return "", false, err
	}
	c := exec.Command("go", "test", "-count=1", "-vet=off", "-overlay", overlay, "-run", "TestOneRow$", "-v", ".")
	c.Env = append(os.Environ(), "TEMPOMAT_WORTH=", "TEMPOMAT_ROW="+m.row)
	text, err := c.CombinedOutput()
	out = string(text)
	if _, ended, ok := strings.Cut(out, oneRow); ok {
		out, _, _ = strings.Cut(ended, "\n")
		return out, err != nil, nil
	}
	return out, false, errors.Join(errors.New("it was not played"), err)
}

// oneRow begins what TestOneRow says.
const oneRow = "the row: "

// TestOneRow plays the row that TEMPOMAT_ROW names, for TestMutations.
func TestOneRow(t *testing.T) {
	name := os.Getenv("TEMPOMAT_ROW")
	if name == "" {
		t.Skip("TEMPOMAT_ROW names none")
	}
	r, ok := rows(true)[name]
	if !ok {
		t.Fatalf("no row is called %s", name)
	}
	missed, why, err := r.isMissed()
	if err != nil {
		t.Fatal(err)
	}
	t.Log(oneRow + why)
	if missed {
		t.Fail()
	}
}

// TestMutatedRowsAreMet: a row that is missed anyway notices nothing.
func TestMutatedRowsAreMet(t *testing.T) {
	askedForWorth(t)
	all := rows(true)
	var names []string
	for _, m := range mutations() {
		if !slices.Contains(names, m.row) {
			names = append(names, m.row)
		}
	}
	parallel(len(names), func(i int) {
		r, ok := all[names[i]]
		if !ok {
			t.Errorf("no row is called %s", names[i])
			return
		}
		if missed, why, err := r.isMissed(); err != nil || missed {
			t.Errorf("%s: %s (%v)", names[i], why, err)
		}
	})
}
