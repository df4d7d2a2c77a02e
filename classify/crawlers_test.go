package classify

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestManualHoldsTheCrawlers: the manual's table of known robots is the code's.
func TestManualHoldsTheCrawlers(t *testing.T) {
	manual, err := os.ReadFile("../docs/robots.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, c := range KnownCrawlers() {
		fmt.Fprintf(&rows, "| `%s` | `%s` | `%s` |\n", c.Name, strings.Join(c.Agents, "`, `"), strings.Join(c.Domains, "`, `"))
	}
	if !strings.Contains(string(manual), "|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/robots.md should have these rows, and no others:\n%s", &rows)
	}
}
