package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// facts are figures that several pages contain, and that must be the same in each. The text after a figure is
// for people to read.
var facts = map[string]*regexp.Regexp{
	"requests of the crawler in flight": regexp.MustCompile(`(\d+)(?: crawler)? requests in flight`),
	"pages that the crawler got":        regexp.MustCompile(`(?:it got|instead of) (\d+\.\d) (?:pages a second without|\.)`),
	"latency on an idle server":         regexp.MustCompile(`median page(?: of the idle wiki)? took (\d+ ms instead of \d+) ms`),
	"pause before systemd restarts":     regexp.MustCompile(`systemd restarts it (?:after|every) (\d+) s`),
	"drain":                             regexp.MustCompile("`timeouts.drain` \\((\\d+) s\\)"),
	"longest wait":                      regexp.MustCompile("`(?:throttle\\.)?maxHold` \\((\\d+) s\\)"),
	"lists of robots' addresses":        regexp.MustCompile(`fetches the lists every (\d+) hours`),
	"requests that may wait":            regexp.MustCompile(`\b(1,?\d{3}), or 64 per CPU`),
}

// TestFiguresAgree: a figure in several places is the same in each.
func TestFiguresAgree(t *testing.T) {
	first := map[string]string{}
	for path := range pages(t) {
		if path != "README.md" && !strings.HasPrefix(path, "docs/") {
			continue
		}
		for fact, figure := range facts {
			for _, found := range figure.FindAllStringSubmatch(testkit.ReadFile(t, "../"+path), -1) {
				is := strings.ReplaceAll(found[1], ",", "")
				if was, ok := first[fact]; ok && was != is {
					t.Errorf("%s: %s: %s here, elsewhere %s", path, fact, is, was)
				}
				first[fact] = is
			}
		}
	}
	for fact := range facts {
		if first[fact] == "" {
			t.Errorf("%s: no page has it", fact)
		}
	}
}

// runs are the measured figures and bounds of pages that have no date: for each page its figure, the test that
// fails when it is no longer so, and the words of that test.
var runs = [][4]string{
	{"docs/security.md", "at most 16 MB by default", "limiter/table_test.go", "MB, want at most 16"},
	{"docs/security.md", "accepts 87,338 connections", "proxy/host/accept_test.go", "262144: 87338"},
	{"docs/reports.md", "takes at most 10 MB", "proxy/telemetry/book/history_test.go", "got > 10<<20"},
	{"docs/install.md", "`systemd-analyze security tempomat-proxy`: 1.8", "deploy/package/test-inside", "s <= 2.0"}, //nolint:misspell // it is called so
}

// TestFiguresHaveARun: a page names the day of its measurements or links them to those in docs/benchmarks.md, or a
// test keeps its figures.
func TestFiguresHaveARun(t *testing.T) {
	for _, r := range runs {
		if !strings.Contains(testkit.ReadFile(t, "../"+r[0]), r[1]) || !strings.Contains(testkit.ReadFile(t, "../"+r[2]), r[3]) {
			t.Errorf("%s: %q, or the test for it, %s: %q, has changed", r[0], r[1], r[2], r[3])
		}
	}
	measured := regexp.MustCompile(`(?i)\b(about|needs?|takes|took) [0-9][0-9.,]*( to [0-9.,]+)? ?(µs|ms|s|KB|MB|%)[ .,;]`)
	for path := range pages(t) {
		text := testkit.ReadFile(t, "../"+path)
		if path != "README.md" && !strings.HasPrefix(path, "docs/") && !strings.HasPrefix(path, "deploy/") || day.MatchString(text) {
			continue
		}
		for line := range strings.Lines(text) {
			if figure := measured.FindString(line); figure != "" && !strings.Contains(line, "(benchmarks.md#") {
				t.Errorf("%s: %q: measured when, or kept by which test?", path, figure)
			}
		}
	}
}

// day is a date, as pages name that of a measurement.
var day = regexp.MustCompile(`\d{1,2} [A-Z][a-z]+ 20\d\d|[Ss]ame round`)

// TestREADMEHasTheBenchmarks: the README's table is part of docs/benchmarks.md, whose sections give the date
// of their run.
func TestREADMEHasTheBenchmarks(t *testing.T) {
	benchmarks := testkit.ReadFile(t, "../docs/benchmarks.md")
	all := rows(benchmarks)
	checked := 0
	for _, row := range rows(testkit.ReadFile(t, "../README.md")) {
		i := slices.IndexFunc(all, func(of []string) bool { return strings.HasSuffix(row[0], of[0]) && of[0] != "" })
		if !strings.Contains(row[0], "crawler") {
			continue
		}
		if i < 0 {
			t.Errorf("%s: docs/benchmarks.md has no such row", row[0])
			continue
		}
		for column, cell := range row[1:] {
			if is, _, _ := strings.Cut(all[i][column+1], ","); strings.Trim(cell, "*") != is {
				t.Errorf("%s: README.md has %s, docs/benchmarks.md %s", row[0], cell, is)
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("README.md has no table of a crawler")
	}
	for _, section := range strings.Split(benchmarks, "\n## ")[1:] {
		if !day.MatchString(section) {
			title, _, _ := strings.Cut(section, "\n")
			t.Errorf("docs/benchmarks.md: %s: of which day?", title)
		}
	}
}

// rows returns the rows of all tables of a page.
func rows(page string) (all [][]string) {
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		all = append(all, cells)
	}
	return all
}
