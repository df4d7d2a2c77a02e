package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestArchitectureNamesWhatIsThere: each path in ARCHITECTURE.md exists, and its file declares the symbols
// that are named after it.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text := testkit.ReadFile(t, "../ARCHITECTURE.md")
	named := regexp.MustCompile("`([a-z0-9./-]+/[a-z0-9./_-]*)`(?: `([A-Za-z]+)`)?").FindAllStringSubmatch(text, -1)
	if len(named) < 40 {
		t.Fatalf("only %d paths are named", len(named))
	}
	for _, m := range named {
		path, symbol := filepath.Join("..", m[1]), m[2]
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
			continue
		}
		if symbol == "" {
			continue
		}
		if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + symbol + `\b`).MatchString(testkit.ReadFile(t, path)) {
			t.Errorf("%s declares no %s", path, symbol)
		}
	}
}

// TestListsOfFilesNameWhatIsThere: each file in a package doc's list is in that package, and each file that a
// page next to the code names exists.
func TestListsOfFilesNameWhatIsThere(t *testing.T) {
	listed := map[string]*regexp.Regexp{
		".go": regexp.MustCompile(`(?m)^//\t([a-z0-9_]+\.go)\s`),
		".md": regexp.MustCompile("`([a-z0-9_/]+\\.go)`"),
	}
	found := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || listed[filepath.Ext(path)] == nil || filepath.Dir(path) == ".." {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.HasPrefix(path, filepath.Join("..", "docs")) {
			return err
		}
		for _, m := range listed[filepath.Ext(path)].FindAllSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || found < 60 {
		t.Errorf("%d files are listed: %v", found, err)
	}
}
