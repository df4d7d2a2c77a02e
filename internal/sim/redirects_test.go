package sim

import (
	"fmt"
	"strings"
	"testing"

	"tempomat/limiter"
)

// TestRedirects plays newcomers beside crawlers, with and without their redirect.
func TestRedirects(t *testing.T) {
	all := Redirects()
	var table strings.Builder
	fmt.Fprintf(&table, "%-39s %-6s %6s %6s %6s %6s %6s | %6s %7s | without: %6s %6s %6s %6s\n",
		"scenario", "who", "<1s", "<5s", "p50", "p95", "fail", "cpu", "waiting", "<1s", "p50", "p95", "cpu")
	for _, s := range all {
		var kinds []string
		for _, d := range s.Demands {
			kinds = append(kinds, d.Kind)
		}
		results := play(t, s, limiter.Fair, kinds...)
		plain := s
		plain.Redirect = false
		without := play(t, plain, limiter.Fair, kinds...)
		for _, k := range kinds {
			r, o := results[k], without[k]
			fmt.Fprintf(&table, "%-39s %-6s %5.1f%% %5.1f%% %6.0f %6.0f %5.1f%% | %5.1f%% %6.1f%% |         %5.1f%% %6.0f %6.0f %5.1f%%\n",
				s.Name, k, 100*r.good, 100*r.good5, r.p50, r.p95, 100*r.failed, 100*r.used, 100*r.waiting,
				100*o.good, o.p50, o.p95, 100*o.used)
		}
		if !onlySome() {
			judge(t, s, s.missed(results))
		}
	}
	t.Log("\n" + table.String())
}
