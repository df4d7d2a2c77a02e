package testkit_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWhatTheRaceDetectorSkipsIsRun: where a test does less with the race detector, make test runs
// it without, too. Otherwise it would never run, and no one would notice. Package main does not do
// less: it builds the programs with the detector.
func TestWhatTheRaceDetectorSkipsIsRun(t *testing.T) {
	const root = "../.."
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	recipe := regexp.MustCompile(`(?m)^test:.*\n((?:\t.*\n)+)`).FindStringSubmatch(string(makefile))
	if recipe == nil {
		t.Fatal("the Makefile has no recipe for test")
	}
	run := map[string]*regexp.Regexp{"./cmd/tempomat-proxy": regexp.MustCompile("")} // which tests of a package
	for line := range strings.Lines(recipe[1]) {
		if !strings.Contains(line, " test ") || strings.Contains(line, "-race") {
			continue
		}
		only := ""
		if found := regexp.MustCompile(`-run '?([^ ']+)`).FindStringSubmatch(line); found != nil {
			only = found[1]
		}
		for _, field := range regexp.MustCompile(`\./\S*`).FindAllString(line, -1) {
			run[field] = regexp.MustCompile(only)
		}
	}
	asking := 0
	for path, tests := range asksForRaceDetector(t, root) {
		for _, name := range tests {
			if asking++; run[path] == nil || !run[path].MatchString(name) {
				t.Errorf("%s: %s asks for the race detector, and make test does not run it without", path, name)
			}
		}
	}
	if asking < 10 {
		t.Errorf("only %d tests ask for the race detector", asking)
	}
}

// asksForRaceDetector finds by package the tests that ask for the race detector, also by functions
// of their package.
func asksForRaceDetector(t *testing.T, root string) map[string][]string {
	packages := map[string]string{} // the text of each's tests
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "raceless_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(path))
		packages["./"+filepath.ToSlash(rel)] += "\n" + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for path, text := range packages {
		seen := map[string]bool{}
		for asks := []string{`testkit\.RaceDetector\b`}; len(asks) > 0; {
			asking := regexp.MustCompile(`\b(` + strings.Join(asks, "|") + `)`)
			asks = nil
			for _, function := range strings.Split(text, "\nfunc ")[1:] {
				name, body, _ := strings.Cut(function, "(")
				switch {
				case name == "" || seen[name] || !asking.MatchString(body): // the first is a method
					continue
				case strings.HasPrefix(name, "TestAccept"): // make accept runs them without it
				case strings.HasPrefix(name, "Test"):
					found[path] = append(found[path], name)
				case !strings.HasPrefix(name, "Benchmark"):
					asks = append(asks, name+`\(`)
				}
				seen[name] = true
			}
		}
	}
	return found
}
