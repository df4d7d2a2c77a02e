//go:build world

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// prometheus is a running one.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus has it ask the targets each second, and evaluate our alerts.
func startPrometheus(t *testing.T, targets string, flags ...string) *prometheus {
	t.Helper()
	path := testkit.Program(t, "prometheus")
	alerts, err := filepath.Abs("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir, listen := tempDir(t), "127.0.0.1:"+freePort(t)
	file := filepath.Join(dir, "prometheus.yml")
	writeFile(t, file, `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: ["`+alerts+`"]
scrape_configs: [{job_name: tempomat-proxy, static_configs: [{targets: [`+targets+`]}]}]
`)
	args := []string{"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + listen}
	startProcess(t, nil, path, append(args, flags...)...)
	return &prometheus{t: t, url: "http://" + listen}
}

// ask asks its API; what it says as an error is returned.
func (p *prometheus) ask(path string, query url.Values, into any) (wrong string) {
	p.t.Helper()
	r, err := http.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err.Error() // it has not begun to listen
	}
	defer r.Body.Close()
	reply := struct{ Data, Error any }{Data: into}
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		return err.Error()
	}
	wrong, _ = reply.Error.(string)
	return wrong
}

// query returns how many series an expression has, and the value of the first.
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

// panelQueries are all expressions of the dashboard, with values for its variables.
func panelQueries(t *testing.T) (all []string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/grafana/tempomat.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(data, -1) {
		var expr string
		if err := json.Unmarshal(found[1], &expr); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$instance", ".*").Replace(expr))
	}
	if len(all) < 40 {
		t.Fatalf("%d expressions", len(all))
	}
	return all
}

// checkPanels looks whether all panels of the dashboard show something.
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
	if empty > 4 { // alerts that fire, and sharing
		p.t.Errorf("%d expressions of the dashboard have no value", empty)
	}
}

// checkRules waits until all alerts were evaluated, and looks how that went.
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

// startBreaking is a backend that breaks off what is asked of it below /broken.
func startBreaking(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestWorldPrometheus has a real one ask a real proxy, and puts all expressions of the alerts and
// of the dashboard to it.
func TestWorldPrometheus(t *testing.T) {
	t.Parallel()
	metrics := "127.0.0.1:" + freePort(t)
	p := startPrometheus(t, metrics, "--enable-feature=exemplar-storage")
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
	var exemplars []struct {
		Exemplars []struct{ Labels map[string]string }
	}
	testkit.Eventually(t, "an example has the id of its request", func() bool {
		ask()
		wrong := p.ask("/api/v1/query_exemplars", url.Values{
			"query": {"tempomat_request_duration_seconds_bucket"}, "start": {"0"}, "end": {"9999999999"},
		}, &exemplars)
		return wrong == "" && len(exemplars) > 0 && len(exemplars[0].Exemplars[0].Labels["request_id"]) == 8
	})
	if got, want := s.scrape(metrics, "tempomat_requests_total{"), float64(s.stats().Counters["requests"]); got != want {
		t.Errorf("Prometheus is told of %v requests, the doctor of %v", got, want)
	}
}
