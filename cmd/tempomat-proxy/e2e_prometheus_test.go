//go:build world

package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts a Prometheus that scrapes the targets each second and evaluates tempomat's alerts.
func startPrometheus(t *testing.T, targets string) *prometheus {
	t.Helper()
	path := testkit.Program(t, "prometheus")
	alerts, err := filepath.Abs("../../deploy/prometheus/alerts.yaml")
	testkit.Must(t, err)
	dir, listen := tempDir(t), "127.0.0.1:"+freePort(t)
	file := filepath.Join(dir, "prometheus.yml")
	testkit.ReplaceFile(t, file, `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["`+alerts+`"]
scrape_configs: [{job_name: tempomat-proxy, static_configs: [{targets: [`+targets+`]}]}]
`)
	args := []string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + listen}
	testkit.Start(t, nil, path, args...)
	return &prometheus{t: t, url: "http://" + listen}
}

// ask sends a request to the API of Prometheus, and returns the error that the API reports.
func (p *prometheus) ask(path string, query url.Values, into any) (wrong string) {
	p.t.Helper()
	r, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err.Error() // Prometheus doesn't listen yet
	}
	defer r.Body.Close()
	reply := struct{ Data, Error any }{Data: into}
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		return err.Error()
	}
	wrong, _ = reply.Error.(string)
	return wrong
}

// query returns the number of series that match an expression, and the value of the first series.
func (p *prometheus) query(expr string) (n int, value float64, wrong string) {
	p.t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	if wrong = p.ask("/api/v1/query", url.Values{"query": {expr}}, &data); wrong != "" || len(data.Result) == 0 {
		return 0, 0, wrong
	}
	text, _ := data.Result[0].Value[1].(string)
	value, _ = strconv.ParseFloat(text, 64)
	return len(data.Result), value, ""
}

func (p *prometheus) value(expr string) float64 {
	p.t.Helper()
	_, x, _ := p.query(expr)
	return x
}

// panelQueries returns all expressions in the dashboard, with values for the dashboard's variables.
func panelQueries(t *testing.T) (all []string) {
	t.Helper()
	data := testkit.ReadFile(t, "../../deploy/grafana/tempomat.json")
	for _, found := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(data, -1) {
		var expr string
		testkit.Must(t, json.Unmarshal([]byte(found[1]), &expr))
		all = append(all, strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$instance", ".*").Replace(expr))
	}
	if len(all) < 40 {
		t.Fatalf("%d expressions", len(all))
	}
	return all
}

// checkPanels checks that the panels of the dashboard have data, except for the few that can be empty.
func (p *prometheus) checkPanels() {
	p.t.Helper()
	empty := 0
	for _, expr := range panelQueries(p.t) {
		n, _, wrong := p.query(expr)
		if wrong != "" {
			p.t.Errorf("%s\n%s", expr, wrong)
		}
		if n == 0 {
			p.t.Logf("nothing yet: %s", expr)
			empty++
		}
	}
	if empty > 4 { // the panels for firing alerts and for sharing are empty
		p.t.Errorf("%d expressions of the dashboard have no value", empty)
	}
}

// checkRules waits until all alerts have been evaluated, and checks the result.
func (p *prometheus) checkRules() {
	p.t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	testkit.Eventually(p.t, "all alerts are evaluated", func() bool {
		p.ask("/api/v1/rules", nil, &rules)
		return len(rules.Groups) == 1 && rules.Groups[0].Rules[0].Health != "unknown"
	})
	for _, r := range rules.Groups[0].Rules {
		if r.Health != "ok" || r.LastError != "" {
			p.t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
		}
	}
}

// startBreaking starts a backend that breaks off its answers below /broken.
func startBreaking(t *testing.T) string {
	t.Helper()
	return startBackend(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
	})
}

// TestWorldPrometheus runs a real Prometheus with a real proxy, and evaluates all expressions of the alerts
// and of the dashboard.
func TestWorldPrometheus(t *testing.T) {
	t.Parallel()
	metrics := "127.0.0.1:" + freePort(t)
	p := startPrometheus(t, metrics)
	s := startProxy(t, startBreaking(t), "metrics: \""+metrics+"\"\nlimits: [{name: login, path: /login, rate: 1/hour}]\n")
	ask := func() {
		for _, path := range []string{"/", "/login", "/broken"} {
			s.get("198.51.100.1", path)
		}
	}
	testkit.Eventually(t, "rates are above zero", func() bool {
		ask()
		return p.value(`sum(rate(tempomat_requests_total[10s]))`) > 0 && p.value(`sum(rate(tempomat_refused_total{reason="limit"}[10s]))`) > 0
	})
	p.checkPanels()
	p.checkRules()
	if got, want := s.scrape(metrics, "tempomat_requests_total{"), float64(s.stats().Counters["requests"]); got != want {
		t.Errorf("Prometheus is told of %v requests, the doctor of %v", got, want)
	}
}
