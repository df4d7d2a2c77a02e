package sim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// askedForWorth skips the test unless TEMPOMAT_WORTH is set. TEMPOMAT_WORTH=1 tests whether the rules are worth
// having: it plays rows without each rule, and with other code broken on purpose. TEMPOMAT_WORTH=all plays all
// rows with each of these mutations.
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

// rows returns the rows of all tables. If grid is true, it returns the whole grid of hogs, otherwise only the
// rows that are always played.
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

// isMissed reports whether two of three seeds miss the row's demands, and the result of one of them.
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

// A row counts as worse because of a mutation if one of its figures changes by this much.
const (
	worseGood   = 0.05 // this fraction of the requests is no longer answered within a second
	worseFailed = 0.05 // this additional fraction of the requests fails
	worseP95    = 1.25 // p95 grows to at least this multiple
	worseMs     = 50   // and by at least this many milliseconds
)

// figures are the results of a kind of client.
type figures struct{ Good, P95, Failed float64 }

// medians returns the medians of three seeds for each of a row's kinds of clients.
func (r row) medians() (map[string]figures, error) {
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
	all := map[string]figures{}
	for kind, of := range runs {
		m := median(of)
		all[kind] = figures{m.good, min(m.p95, 1e6), m.failed} // JSON has no infinity
	}
	return all, nil
}

// edit replaces a piece of code that occurs once in its file.
type edit struct{ file, is, becomes string }

// mutation is a way to break the code. One of its rows must then be missed or get worse.
type mutation struct {
	what  string
	rows  []string
	edits []edit
}

// mutations returns the rules of the gate, each of which is taken out of the code, and mistakes that have
// happened or might happen.
func mutations() []mutation {
	return append(rules(),
		mutation{
			"the machine's CPU usage is attributed to the backend", []string{"15x8ms+.6s-busy-prefork"},
			[]edit{{"internal/sim/proxy.go", "if p.blind {", "if true {"}},
		},
		mutation{
			"estimates are not limited by the measured usage", []string{"pollcrawl-20"},
			[]edit{{"cpuaccount/correct.go", "case present > most:", "case present > 1e9*most:"}},
		},
		mutation{
			"invented kinds stay unknown", []string{"novel120x1-people300ms"},
			[]edit{{"cpuaccount/estimator.go", "if q.answered {\n\t\treturn 0", "if true {\n\t\treturn 0"}},
		},
		mutation{
			"all invented kinds cost alike", []string{"novel8x20-wiki20ms"},
			[]edit{{"cpuaccount/estimator.go", "family.n >= least", "false"}},
		},
		mutation{
			"the limits on workers don't apply while four are free", []string{"read-spool-32MB-1x24-cold"},
			[]edit{{"limiter/workers.go", "slackTimes*(n.workers-n.longMost+n.cpus)", "0*slackTimes*n.workers+2"}},
		},
		mutation{
			"all uploads start when they have waited for MaxHold", []string{"chunks-1x96-5s-slow"},
			[]edit{{"limiter/workers.go", "!g.uploadsWait(t, lateUploads)", "true"}},
		},
		mutation{
			"a full queue refuses light requests first", []string{"new+full-queue"},
			[]edit{{"limiter/gate.go", "return t.level.rung() > o.level.rung()", "return t.level.rung() < o.level.rung()"}},
		},
	)
}

// rules returns the rules of the gate that doc.go of package limiter names, and how to take each rule out of
// the code.
func rules() []mutation {
	const gate, ladder, flow, workers, sites = "limiter/gate.go", "limiter/ladder.go", "limiter/flow.go", "limiter/workers.go", "limiter/sites.go"
	return []mutation{
		{"Climbs", []string{"longjobs-flat", "exports60s-3conn-pages300ms"}, []edit{{gate, "r := max(from, rungOf(t.charged))", "r := from"}}},
		{"Halves", []string{"nat+dist120", "new+dist120-samepath"}, []edit{{ladder, "if d.up = d.low; r+1 < rungs {", "if d.up = d.low; false {"}}},
		{"Beside", []string{"mixed", "nat+crawl1", "nat+dist120-1cpu"}, []edit{{ladder, "if r > passRung || r <= lightRung && at < g.trustAgain {", "if true {"}}},
		{"Distrust", []string{"heavy+again-40+redirect", "misguess8addr", "train3s-8addr"}, []edit{{ladder, "if r > passRung || r <= lightRung && at < g.trustAgain {", "if r > passRung {"}}},
		{"Passes", []string{"dbcrawl-300ms-300ms", "flat1+steps"}, []edit{{ladder, "return r <= lightRung || r > briefRung && !g.divided || r == passRung &&", "return false &&"}}},
		{"Waits", []string{"halves-20conn-2.5s-pages100ms", "polls120s-8conn-pages800ms", "chunks-24x1-cold", "poll-20+crawl"}, []edit{{ladder, "waits := t.likelyIdle >= patience.Seconds() &&", "waits := false &&"}, {gate, "case t.stays || !computes:", "case t.stays:"}}},
		{"Leaves", []string{"dear-people300ms-crawl5s", "dear-people150ms-crawl2s"}, []edit{{ladder, "if r <= passRung || !t.overShare ||", "if true ||"}}},
		{"LeavesLonger", []string{"exports60s-3conn-pages300ms", "exports60s-20conn-pages300ms"}, []edit{{ladder, "upTo(&g.load.overShare, passRung+1, r)", "upTo(&g.load.overShare, passRung+1, rungs-1)"}}},
		{"LeavesMore", []string{"crawl1-8cpu"}, []edit{{ladder, "case t.lead() <= aheadFrom:", "case true:\n\tcase t.lead() <= aheadFrom:"}}},
		{"Uninvited", []string{"2cpu-150workers-pages800ms-20x50+10s-spread=true"}, []edit{{workers, "(t.uninvited || was == holding)", "(t.uninvited || false && was == holding)"}}},
		{"Debt", []string{"flash100-150ms+crawl", "flash500-60ms+crawl"}, []edit{{flow, "baseMultiplier + debtMultiplier*t.debtRatio", "baseMultiplier + 0*t.debtRatio"}}},
		{"Inherits", []string{"flatnat-1cpu-crowded", "natflat20+crawler-inside-cookiesfalse"}, []edit{{flow, "others *= inheritedDebt", "others *= 1"}}},
		{"Standing", []string{"flat120", "flat120think"}, []edit{{"limiter/limiter.go", "client.SetStanding(at, t.standing)", "client.SetStanding(at, 1)"}}},
		{"Behind", []string{"flatnat-4cpu"}, []edit{{flow, "c.home().clientsBehind = t.clientsBehind", "c.home().clientsBehind = 1"}}},
		{"Faces", []string{"natflat20+flatcrawler-inside-cookiesfalse"}, []edit{{flow, "if t.face == c.face {", "if true {"}}},
		{"Lead", []string{"natflat20+crawler-inside-cookiesfalse", "flat+follow-1x40+redirect"}, []edit{{flow, "t.rank = t.clock + e*t.costMultiplier + lead", "t.rank = t.clock + e*t.costMultiplier"}}},
		{"Strangers", []string{"flatshot", "stream-40x1-cold"}, []edit{{gate, "if c.known || t.proven || t.pooled {", "if true {"}}},
		{"OthersPart", []string{"new+posing120"}, []edit{{flow, "strangersShare*max(1, others)", "strangersShare"}}},
		{"Credit", []string{"new+posing120"}, []edit{{flow, "return max(q.turn, s.clock.systemVirtualTime-strangersCredit*e)", "return q.turn"}}},
		{"Newest", []string{"new+lightshot100", "res-flat-13/s"}, []edit{{flow, "newest := at < s.strangers.newestTo;", "newest := false;"}}},
		{"Fewest", []string{"new+dist120-samepath"}, []edit{{flow, "return class | uint8(min(", "return class | 0*uint8(min("}}},
		{"Passed", []string{"heavy+again-40+redirect", "heavy+follow-40+redirect"}, []edit{{flow, "if !t.passed && !(t.follows", "if !(t.follows"}}},
		{"Parts", []string{"new+shot40-parts"}, []edit{{flow, "if !t.passed && !(t.follows &&", "if !t.passed && !(false &&"}}},
		{"Probes", []string{"all+crawl-cold", "novel8x20-wiki20ms"}, []edit{{ladder, "return g.load.probing == 0 &&", "return false &&"}}},
		{"Uploads", []string{"novel-chunks-3x5", "chunks-1x96-5s", "chunks-8x12-60s"}, []edit{{ladder, "case t.uploads && (waits || !t.sure):", "case false:"}, {workers, "if t.uploads && g.uploadsWait(t, patience) {", "if false {"}}},
		{"LateUploads", []string{"uploads-1x12-75s"}, []edit{{workers, "!g.uploadsWait(t, lateUploads)", "false"}}},
		{"Kept", []string{"stream-40x1", "poll-20"}, []edit{{workers, "kept := min((keptOf16*n.workers+15)/16, 2*n.cpus+1)", "kept := 0"}}},
		{"HoldersLeave", []string{"2cpu-16workers-pages3000ms-20x5+0.001s-spread=true"}, []edit{{workers, "|| !computes && g.wantsCPU() &&", "|| false &&"}}},
		{"KeysHold", []string{"waiting-people+holds-20"}, []edit{{workers, "; have > 0 && have >= int(", "; false && have >= int("}}},
		{"Briefly", []string{"api8x50ms+1s-16w"}, []edit{{workers, "have -= brief", "have -= 0 * brief"}}},
		{"StrangersPart", []string{"waiting-people+strangers-hold"}, []edit{{workers, "t.stranger && have >= most &&", "false && have >= most &&"}}},
		{"MayCompute", []string{"polls120s-8conn-pages800ms", "exports60s-3conn-pages100ms-1cpu"}, []edit{{workers, "return t.own().Bucket.Value.holds == 0 && long <", "return false && long <"}}},
		{"Slack", []string{"office-stream-80"}, []edit{{workers, "if g.hasSlack() {", "if false {"}}},
		{"Misjudges", []string{"misguess8addr"}, []edit{{workers, "used := *t.site.misjudged.of(t)", "used := 0\n\tif true {\n\t\treturn nothing, 0\n\t}"}}},
		{"Reguesses", []string{"misguess-control", "longjobs-light"}, []edit{{gate, "idle, guess, sure := t.likelyIdle, t.guess, t.sure", "if true {\n\t\treturn\n\t}\n\tidle, guess, sure := t.likelyIdle, t.guess, t.sure"}}},
		{"Grows", []string{"db-20-300ms", "db-60-300ms"}, []edit{{ladder, "case n.fixed:", "case true:"}}},
		{"SitesLeave", []string{"the smallest has the most expensive pages"}, []edit{{sites, "return g.divided && others > 0 &&", "return false && others > 0 &&"}}},
		{"SitesLead", []string{"a thousandth"}, []edit{{sites, "most := g.clock.systemVirtualTime +", "most := math.Inf(1) +"}}},
		{"SitesIdle", []string{"long pages"}, []edit{{sites, ">= g.limits.slots && s.used", ">= 0 && s.used"}}},
	}
}

// TestMutations plays rows with each mutation. If no row gets worse without a rule, the rule isn't needed. A
// mutation's own rows are played first; with TEMPOMAT_WORTH=all, all other rows follow.
func TestMutations(t *testing.T) {
	all := askedForWorth(t)
	root, err := filepath.Abs("../..")
	testkit.Must(t, err)
	var names []string
	if all {
		names = slices.Sorted(maps.Keys(rows(false)))
	}
	lines := make([]string, len(mutations()))
	parallel(len(lines), func(i int) {
		m := mutations()[i]
		binary, err := m.build(t.TempDir(), root)
		if err != nil {
			t.Errorf("%s: %v", m.what, err)
			return
		}
		noticed := false
		for _, name := range append(slices.Clone(m.rows), names...) {
			how, err := noticedBy(binary, name)
			if err != nil {
				t.Errorf("%s: %s: %v", m.what, name, err)
			}
			if how != "" {
				line := fmt.Sprintf("%-54s %-40s %s", m.what, name, how)
				lines[i] += line + "\n"
				if noticed = true; !all {
					break
				}
				t.Log(line) // playing all rows takes long
			}
		}
		if !noticed {
			t.Errorf("%s: no row gets worse", m.what)
		}
	})
	t.Log("\n" + strings.Join(lines, ""))
}

// noticedBy returns how a row gets worse if a mutated program plays it, or an empty string if it doesn't.
func noticedBy(binary, name string) (how string, err error) {
	r, ok := rows(true)[name]
	if !ok {
		return "", errors.New("no row has this name")
	}
	missed, _, err := r.isMissed()
	if err != nil {
		return "", err
	}
	if !missed {
		if why, missed, err := playWith(binary, name, ""); err != nil || missed {
			return why, err
		}
	}
	with, err := r.medians()
	if err != nil {
		return "", err
	}
	said, _, err := playWith(binary, name, "medians")
	if err != nil {
		return "", err
	}
	var without map[string]figures
	err = json.Unmarshal([]byte(said), &without)
	for _, kind := range slices.Sorted(maps.Keys(with)) {
		a, b := with[kind], without[kind]
		if b.Good < a.Good-worseGood || b.Failed > a.Failed+worseFailed || b.P95 > worseP95*a.P95+worseMs {
			how += fmt.Sprintf("%s: good %.0f -> %.0f %%, p95 %.0f -> %.0f ms, failed %.0f -> %.0f %%; ",
				kind, 100*a.Good, 100*b.Good, a.P95, b.P95, 100*a.Failed, 100*b.Failed)
		}
	}
	return strings.TrimSuffix(how, "; "), err
}

// mutate returns the texts of the files with the mutation.
func (m mutation) mutate(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range m.edits {
		if texts[e.file] == "" {
			source, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			texts[e.file] = string(source)
		}
		if strings.Count(texts[e.file], e.is) != 1 {
			return nil, fmt.Errorf("%s must contain this once: %s", e.file, e.is)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.is, e.becomes, 1)
	}
	return texts, nil
}

// TestMutationsAreOfThisCode checks that each mutation still finds its line and its rows. TestMutations checks
// that the rows get worse.
func TestMutationsAreOfThisCode(t *testing.T) {
	table := rows(true)
	for _, m := range mutations() {
		for _, name := range m.rows {
			if _, ok := table[name]; !ok {
				t.Errorf("%s: no row is named %s", m.what, name)
			}
		}
		if _, err := m.mutate("../.."); err != nil {
			t.Errorf("%s: %v", m.what, err)
		}
	}
}

// build compiles the tests of this package with the mutation.
func (m mutation) build(dir, root string) (binary string, err error) {
	texts, err := m.mutate(root)
	if err != nil {
		return "", err
	}
	binary, overlay, replaces := filepath.Join(dir, "sim.test"), filepath.Join(dir, "overlay.json"), map[string]string{}
	for file, text := range texts {
		mutated := filepath.Join(dir, filepath.Base(file))
		replaces[filepath.Join(root, file)] = mutated
		err = errors.Join(err, os.WriteFile(mutated, []byte(text), 0o600))
	}
	list, e := json.Marshal(map[string]map[string]string{"Replace": replaces})
	if err = errors.Join(err, e, os.WriteFile(overlay, list, 0o600)); err != nil {
		return "", err
	}
	if said, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, said)
	}
	return binary, nil
}

// playWith plays a row with a mutated program. It returns whether the row is missed, and the results of the
// row's clients; in mode medians, it returns their medians.
func playWith(binary, name, mode string) (said string, missed bool, err error) {
	c := exec.Command(binary, "-test.run", "TestOneRow$", "-test.v")
	c.Env = append(os.Environ(), "TEMPOMAT_WORTH="+mode, "TEMPOMAT_ROW="+name)
	out, err := c.CombinedOutput()
	if _, said, ok := strings.Cut(string(out), oneRow); ok {
		said, _, _ = strings.Cut(said, "\n")
		return said, err != nil, nil
	}
	return "", false, errors.Join(fmt.Errorf("the row was not played: %s", out), err)
}

// oneRow is the beginning of the output of TestOneRow.
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
	if os.Getenv("TEMPOMAT_WORTH") == "medians" {
		got, err := r.medians()
		testkit.Must(t, err)
		said, err := json.Marshal(got)
		testkit.Must(t, err)
		t.Log(oneRow + string(said))
		return
	}
	missed, why, err := r.isMissed()
	testkit.Must(t, err)
	t.Log(oneRow + why)
	if missed {
		t.Fail()
	}
}
