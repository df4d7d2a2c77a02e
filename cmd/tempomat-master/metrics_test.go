package main

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/limiter/smockron/master"
)

// TestStatisticsAreInTheManual: each name of Prometheus.
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
		name := f.GetName()
		if short := "…" + strings.TrimPrefix(name, "tempomat_master"); !strings.Contains(string(text), "`"+name) && !strings.Contains(string(text), "`"+short) {
			t.Errorf("docs/master.md does not mention %s", name)
		}
	}
}
