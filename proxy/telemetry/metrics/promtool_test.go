//go:build world

package metrics

import (
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestWorldAlerts: promtool accepts the alerts, and their own tests pass.
func TestWorldAlerts(t *testing.T) {
	promtool := testkit.Program(t, "promtool")
	for _, args := range [][]string{
		{"check", "rules", "alerts.yaml"}, {"check", "config", "prometheus.yml"}, {"test", "rules", "alerts_test.yaml"},
	} {
		c := exec.Command(promtool, args...)
		c.Dir = deploy + "prometheus"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestWorldMetricNames: promtool accepts all names, units and help texts.
func TestWorldMetricNames(t *testing.T) {
	promtool := testkit.Program(t, "promtool")
	w := httptest.NewRecorder()
	Handler(full, NewDurations()).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var ours strings.Builder // Go's collector chooses its own names
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, Prefix) {
			ours.WriteString(line)
		}
	}
	c := exec.Command(promtool, "check", "metrics")
	c.Stdin = strings.NewReader(ours.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
