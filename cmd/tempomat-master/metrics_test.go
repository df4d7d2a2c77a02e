package main

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron/master"
)

// TestStatisticsAreInTheManual: the manual contains the name of each Prometheus metric.
func TestStatisticsAreInTheManual(t *testing.T) {
	text := testkit.ReadFile(t, "../../docs/master.md")
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{func() master.State {
		return master.State{
			Counts:  master.Counts{Malformed: map[string]uint64{"time": 1}},
			Domains: []master.DomainState{{Name: "a"}, {Name: "b"}},
		}
	}, func() uint64 { return 0 }})
	families, err := registry.Gather()
	testkit.Must(t, err)
	for _, f := range families {
		name := f.GetName()
		if short := "…" + strings.TrimPrefix(name, "tempomat_master"); !strings.Contains(text, "`"+name) && !strings.Contains(text, "`"+short) {
			t.Errorf("docs/master.md does not mention %s", name)
		}
	}
}
