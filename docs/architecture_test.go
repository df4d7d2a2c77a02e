package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestArchitectureNamesWhatIsThere: each file and folder that ARCHITECTURE.md names by its path
// exists.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9./-]+/[a-z0-9./_-]*)`").FindAllSubmatch(text, -1)
	if len(named) < 40 {
		t.Fatalf("only %d paths are named", len(named))
	}
	for _, m := range named {
		if _, err := os.Stat(filepath.Join("..", string(m[1]))); err != nil {
			t.Error(err)
		}
	}
}
