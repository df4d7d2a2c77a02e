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
// its package without it, too. Else nobody would notice that it never runs. Package main does not do less:
// it builds the programs with the detector.
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
	run := map[string]bool{"./cmd/tempomat-proxy": true}
	for line := range strings.Lines(recipe[1]) {
		if strings.Contains(line, " test ") && !strings.Contains(line, "-race") {
			for field := range strings.FieldsSeq(line) {
				run[field] = true
			}
		}
	}
	skips := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "testkit.RaceDetector") || strings.HasSuffix(path, "raceless_test.go") {
			return err
		}
		skips++
		rel, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil && !run["./"+filepath.ToSlash(rel)] {
			t.Errorf("%s asks for the race detector, and make test does not run its package without", path)
		}
		return err
	})
	if err != nil || skips == 0 {
		t.Errorf("%d files ask for the race detector, %v", skips, err)
	}
}
