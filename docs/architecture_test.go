package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestArchitectureNamesWhatIsThere: each file and folder that ARCHITECTURE.md names by its path
// exists, and a file declares the symbol that is named after it.
func TestArchitectureNamesWhatIsThere(t *testing.T) {
	text, err := os.ReadFile("../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9./-]+/[a-z0-9./_-]*)`(?: `([A-Za-z]+)`)?").FindAllSubmatch(text, -1)
	if len(named) < 40 {
		t.Fatalf("only %d paths are named", len(named))
	}
	for _, m := range named {
		path, symbol := filepath.Join("..", string(m[1])), string(m[2])
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
			continue
		}
		if symbol == "" {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + symbol + `\b`).Match(source) {
			t.Errorf("%s declares no %s", path, symbol)
		}
	}
}
