package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const deploy = "../../../deploy/"

// rules is what is looked at of alerts.yaml, and of its tests.
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
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAlertsSayWhatToDo: each has its section in the manual, is tried both where it is to
// fire and where it is not, and asks for what there is.
func TestAlertsSayWhatToDo(t *testing.T) {
	manual, err := os.ReadFile("../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
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
			if !strings.Contains(string(manual), "\n### "+r.Alert+"\n") || r.Annotations["runbook_url"] != "docs/runbook.md#"+strings.ToLower(r.Alert) {
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
	if sections := strings.Count(string(manual), "\n### Tempomat"); sections != n || n < 12 {
		t.Errorf("%d alerts, %d sections in the manual", n, sections)
	}
}

// knows checks that the proxy has all metrics that an expression asks for, with the labels
// that it names.
func knows(t *testing.T, where, expr string) {
	t.Helper()
	labels := map[string][]string{
		"request_duration_seconds_bucket": {"group", "le"}, "wait_seconds_bucket": {"group", "le"},
		"request_duration_seconds": {"group"}, "wait_seconds": {"group"}, // native
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

// dashboard is Grafana's: what its schema (version 39) asks for of what we use.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct{ List []struct{ Expr string } }
}

type variable struct{ Name, Type string }

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ H, W, X, Y int }
	Datasource  struct{ Type, UID string }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ Type, UID string }
	}
	FieldConfig struct {
		Defaults  struct{ Unit string }
		Overrides []any
	}
	Options map[string]any
}

// TestDashboard: the panels lie beside each other, and each asks for what there is. Whether
// Prometheus answers is tried with a real one (TestWorldPrometheus of cmd/tempomat-proxy).
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile(deploy + "grafana/tempomat.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if d.UID != "tempomat" || d.SchemaVersion != 39 || len(d.Panels) < 20 || !slices.Contains(variables, "datasource") {
		t.Errorf("%q of version %d, %d panels, variables %v", d.UID, d.SchemaVersion, len(d.Panels), variables)
	}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID <= 0 || ids[p.ID] || p.Title == "" {
			t.Errorf("%q: number %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Errorf("%s and %s lie on each other", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type != "row" {
			p.check(t, variables)
		}
	}
}

func (p *panel) check(t *testing.T, variables []string) {
	t.Helper()
	if p.Type != "timeseries" && p.Type != "stat" || p.FieldConfig.Defaults.Unit == "" || p.FieldConfig.Overrides == nil || p.Options == nil || len(p.Targets) == 0 {
		t.Errorf("%s: a %q without what it needs: %+v", p.Title, p.Type, p)
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
