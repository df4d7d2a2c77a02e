package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TEMPOMAT_WORTH=1 asks whether the rules are worth having: rows are played without each of them, and with the
// code broken on purpose. TEMPOMAT_WORTH=all plays all rows without each rule.
func askedForWorth(t *testing.T) (all bool) {
	t.Helper()
	mode := os.Getenv("TEMPOMAT_WORTH")
	if mode == "" {
		t.Skip("runs with TEMPOMAT_WORTH=1")
	}
	return mode == "all"
}

// row is a row of any table, with the function that judges it.
type row struct {
	Scenario
	judge func(s Scenario, seed uint64) (missed []string, figures string, err error)
}

// rows returns the rows of all tables. Of the grid of hogs, it returns all or those that are always played.
func rows(grid bool) map[string]row {
	all := map[string]row{}
	for _, g := range append(groups(), group{"", Scenarios()}, group{"", Machines()}) {
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

// isMissed tells whether two of three seeds miss the row's demands, and what one of them got.
func (r row) isMissed() (yes bool, why string, err error) {
	missed, figures, err := r.judge(r.Scenario, 1)
	if err == nil {
		missed, err = majority(missed, func(n uint64) (again []string, err error) {
			again, figures, err = r.judge(r.Scenario, n+1)
			return again, err
		})
	}
	return len(missed) > 0, cmp.Or(strings.Join(missed, "; "), strings.Trim(figures, " ;\n")), err
}

// mutation is a way to break the code: the row must be missed then.
type mutation struct {
	what, file, is, becomes, row string
}

func mutations() []mutation {
	return []mutation{
		{
			"the machine's CPU usage is attributed to the backend", "internal/sim/proxy.go",
			"if p.blind {", "if true {", "15x8ms+.6s-busy-prefork",
		},
		{
			"estimates are not limited by the measured usage", "cpuaccount/correct.go",
			"case present > most:", "case present > 1e9*most:", "pollcrawl-20",
		},
		{
			"no worker is kept for short requests", "limiter/workers.go",
			"n.longMost = max(1, n.workers-kept, min(n.cpus, n.workers-1))", "n.longMost = n.workers + 0*kept", "stream-40x1",
		},
		{
			"the limits on workers apply while many workers are free", "limiter/workers.go",
			"if g.hasSlack() && !g.without(ruleSlack) {", "if false && g.hasSlack() {", "20x5ms+0.3s-150w-queue",
		},
		{
			"the limits on workers don't apply while four are free", "limiter/workers.go",
			"slackTimes*(n.workers-n.longMost+n.cpus)", "0*slackTimes*n.workers+2", "read-spool-32MB-1x24-cold",
		},
		{
			"a full queue sheds light clients first", "limiter/gate.go",
			"return t.level.rung() > o.level.rung()", "return t.level.rung() < o.level.rung()", "new+full-queue",
		},
	}
}

// TestMutations breaks the code in ways that have happened or might, and plays the row that should notice.
func TestMutations(t *testing.T) {
	askedForWorth(t)
	root, err := filepath.Abs("../..")
	testkit.Must(t, err)
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

// mutate returns the file's text with the mutation.
func (m mutation) mutate(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, m.file))
	if strings.Count(string(source), m.is) != 1 {
		return "", errors.Join(err, fmt.Errorf("%s must contain this once: %s", m.file, m.is))
	}
	return strings.Replace(string(source), m.is, m.becomes, 1), err
}

// TestMutationsAreOfThisCode checks that each mutation still finds its line. TestMutations checks that rows notice them.
func TestMutationsAreOfThisCode(t *testing.T) {
	for _, m := range mutations() {
		if _, err := m.mutate("../.."); err != nil {
			t.Error(err)
		}
	}
}

// play compiles the mutation and plays its row.
func (m mutation) play(dir, root string) (out string, missed bool, err error) {
	text, err := m.mutate(root)
	if err != nil {
		return "", false, err
	}
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	replaces, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, m.file): mutated}})
	if err != nil {
		return "", false, err
	}
	if err = errors.Join(
		os.WriteFile(mutated, []byte(text), 0o600),
		os.WriteFile(overlay, replaces, 0o600),
	); err != nil {
		return "", false, err
	}
	c := exec.Command("go", "test", "-count=1", "-vet=off", "-overlay", overlay, "-run", "TestOneRow$", "-v", ".")
	c.Env = append(os.Environ(), "TEMPOMAT_WORTH=", "TEMPOMAT_ROW="+m.row)
	said, err := c.CombinedOutput()
	out = string(said)
	if _, ended, ok := strings.Cut(out, oneRow); ok {
		out, _, _ = strings.Cut(ended, "\n")
		return out, err != nil, nil
	}
	return out, false, errors.Join(errors.New("the row was not played"), err)
}

// oneRow begins the output of TestOneRow.
const oneRow = "the row: "

// TestOneRow plays the row that TEMPOMAT_ROW names, for TestMutations.
func TestOneRow(t *testing.T) {
	name := os.Getenv("TEMPOMAT_ROW")
	if name == "" {
		t.Skip("TEMPOMAT_ROW names no row")
	}
	r, ok := rows(true)[name]
	if !ok {
		t.Fatalf("no row is named %s", name)
	}
	missed, why, err := r.isMissed()
	testkit.Must(t, err)
	t.Log(oneRow + why)
	if missed {
		t.Fail()
	}
}

// TestMutatedRowsAreMet: a row that is missed anyway notices no mutation.
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
			t.Errorf("no row is named %s", names[i])
			return
		}
		if missed, why, err := r.isMissed(); err != nil || missed {
			t.Errorf("%s: %s (%v)", names[i], why, err)
		}
	})
}
