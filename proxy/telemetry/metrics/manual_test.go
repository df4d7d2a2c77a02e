package metrics

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

var update = flag.Bool("update", false, "write the table into docs/metrics.md")

// TestManual: docs/metrics.md contains the current table.
func TestManual(t *testing.T) {
	const file, begin, end = "../../../docs/metrics.md", "<!-- table -->\n", "<!-- end of the table -->\n"
	before, rest, ok := strings.Cut(testkit.ReadFile(t, file), begin)
	is, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if *update {
		testkit.WriteFile(t, file, before+begin+manual()+end+after, 0o644)
		return
	}
	testkit.Same(t, manual(), is, "%s is not up to date", file)
}

// manual formats the table for the manual.
func manual() string {
	var b strings.Builder
	b.WriteString("| Prometheus | Graphite | meaning |\n|---|---|---|\n")
	var rows [][3]string
	for _, m := range Table() {
		name, series := "", ""
		if m.Name != "" {
			name = Prefix + m.Name
			if len(m.Labels) > 0 {
				name += "{" + strings.Join(m.Labels, ",") + "}"
			}
			name = "`" + name + "`"
		}
		if m.Series != "" {
			series = "`" + m.Series + strings.Repeat(".*", len(m.Labels)) + "`"
		}
		if last := len(rows) - 1; name == "" && last >= 0 && strings.HasPrefix(rows[last][2], strings.TrimSuffix(m.Help, ".")+", by group") {
			rows[last][1] += ", " + series // the sum of the row's groups
			continue
		}
		rows = append(rows, [3]string{name, series, m.Help})
	}
	for _, row := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
	return b.String()
}
