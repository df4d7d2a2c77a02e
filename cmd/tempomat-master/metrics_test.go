package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/config"
	"tempomat/limiter/smockron/master"
)

// TestStatisticsAreInTheManual: each name of Prometheus and of statsd, with the
// labels that it has; and no others.
func TestStatisticsAreInTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/master.md")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{func() master.State {
		return master.State{
			Counts:  master.Counts{Malformed: map[string]uint64{"time": 1}},
			Domains: []master.DomainState{{Name: "a"}, {Name: "b"}},
		}
	}, func() uint64 { return 0 }})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		name := f.GetName()
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ",") + "}"
		}
		if !strings.Contains(string(text), "| `"+name+"` |") {
			t.Errorf("docs/master.md does not mention %s", name)
		}
	}
	if n := len(regexp.MustCompile(`(?m)^\| .tempomat_master_`).FindAll(text, -1)); n != len(families) {
		t.Errorf("docs/master.md has %d metrics, there are %d", n, len(families))
	}
	all := master.DomainCounts{Accepted: 1, Delayed: 1, Rejected: 1, Throttled: 1, Delay: 1}
	for line := range strings.SplitSeq(statsdLines(&config.Statsd{}, master.DomainCounts{}, all), "\n") {
		name, _, _ := strings.Cut(line, ":")
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/master.md does not mention %s", name)
		}
	}
}
