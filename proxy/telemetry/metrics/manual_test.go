package metrics

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table into docs/metrics.md")

// TestManual: docs/metrics.md has the table as it is.
func TestManual(t *testing.T) {
	const file, begin, end = "../../../docs/metrics.md", "<!-- table -->\n", "<!-- end of the table -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	is, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+begin+manual()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(manual(), is); diff != "" {
		t.Errorf("%s is not up to date (-want +got):\n%s", file, diff)
	}
}

// manual is the table as the manual has it.
func manual() string {
	var b strings.Builder
	b.WriteString("| Prometheus | Graphite | meaning |\n|---|---|---|\n")
	status := Counters(full())
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
		if _, ok := status[m.Series]; ok {
			series += " ✓"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, series, m.Help)
	}
	return b.String()
}
