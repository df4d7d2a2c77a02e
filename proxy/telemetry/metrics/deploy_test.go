package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"tempomat/internal/testkit"
)

const deploy = "../../../deploy/"

// rules are the parts of alerts.yaml, and of its tests, that are checked.
type rules struct {
	Groups []struct{ Rules []rule }
	Tests  []struct {
		Cases []struct {
			Alertname string
			Exp       []any `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T, name string) (r rules) {
	t.Helper()
	data, err := os.ReadFile(deploy + "prometheus/" + name)
	if err == nil {
		err = yaml.Unmarshal(data, &r)
	}
	testkit.Must(t, err)
	return r
}

// TestAlertsSayWhatToDo: each alert has a section in the manual, is tested both when it must fire and when it
// must not, and uses only metrics that exist.
func TestAlertsSayWhatToDo(t *testing.T) {
	manual := testkit.ReadFile(t, "../../../docs/runbook.md")
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range readRules(t, "alerts_test.yaml").Tests {
		for _, c := range test.Cases {
			fires[c.Alertname] = fires[c.Alertname] || len(c.Exp) > 0
			quiet[c.Alertname] = quiet[c.Alertname] || len(c.Exp) == 0
		}
	}
	n := 0
	for _, g := range readRules(t, "alerts.yaml").Groups {
		for _, r := range g.Rules {
			n++
			if !strings.Contains(manual, "\n### "+r.Alert+"\n") || r.Annotations["runbook_url"] != "docs/runbook.md#"+strings.ToLower(r.Alert) {
				t.Errorf("%s has no section in the manual, or does not name it", r.Alert)
			}
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s is tried to fire: %t, not to fire: %t", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"page", "ticket", "info"}, r.Labels["severity"]) {
				t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
			}
			knows(t, r.Alert, r.Expr)
		}
	}
	if sections := strings.Count(manual, "\n### Tempomat"); sections != n || n < 12 {
		t.Errorf("%d alerts, %d sections in the manual", n, sections)
	}
}

// knows checks that an expression uses only metrics and labels that the proxy has.
func knows(t *testing.T, where, expr string) {
	t.Helper()
	labels := map[string][]string{
		"request_duration_seconds_bucket": {"group", "le"}, "wait_seconds_bucket": {"group", "le"},
		"request_duration_seconds": {"group"}, "wait_seconds": {"group"}, // native histograms
	}
	for _, m := range Table() {
		if m.Name != "" {
			labels[m.Name] = m.Labels
		}
	}
	for _, found := range regexp.MustCompile(`\btempomat_(\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1) {
		known, ok := labels[found[1]]
		if !ok {
			t.Errorf("%s: there is no %s", where, found[0])
		}
		for _, l := range regexp.MustCompile(`(\w+)\s*[=!]`).FindAllStringSubmatch(found[2], -1) {
			if !slices.Contains(append([]string{"job", "instance"}, known...), l[1]) {
				t.Errorf("%s: %s has no label %s", where, found[1], l[1])
			}
		}
	}
}

// dashboard is the part of Grafana's dashboard that is checked.
type dashboard struct {
	Panels     []panel
	Templating struct{ List []struct{ Name string } }
}

type panel struct {
	Type, Title string
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ UID string }
	}
}

// TestDashboard: each panel uses metrics and variables that exist. TestWorldPrometheus in cmd/tempomat-proxy
// checks whether a real Prometheus answers.
func TestDashboard(t *testing.T) {
	var d dashboard
	testkit.Must(t, json.Unmarshal([]byte(testkit.ReadFile(t, deploy+"grafana/tempomat.json")), &d))
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if len(d.Panels) < 20 || !slices.Contains(variables, "datasource") {
		t.Errorf("%d panels, variables %v", len(d.Panels), variables)
	}
	for _, p := range d.Panels {
		if p.Type != "row" {
			p.check(t, variables)
		}
	}
}

func (p *panel) check(t *testing.T, variables []string) {
	t.Helper()
	if len(p.Targets) == 0 {
		t.Errorf("%s asks for nothing", p.Title)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if refs[target.RefID] || target.Expr == "" || target.LegendFormat == "" || target.Datasource.UID != "${datasource}" {
			t.Errorf("%s: %+v", p.Title, target)
		}
		refs[target.RefID] = true
		knows(t, p.Title, target.Expr)
		for _, v := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
			if !slices.Contains(variables, v[1]) {
				t.Errorf("%s: there is no variable %s", p.Title, v[1])
			}
		}
	}
}
