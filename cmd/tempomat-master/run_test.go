package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron/master"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

// TestCheck has the program print the meaning of two files: one of tempomat, and one of the original master, whose
// rules are of kind bucket.
func TestCheck(t *testing.T) {
	for _, name := range []string{"ours", "first"} {
		file := "../../testdata/master/" + name + ".yaml"
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), []string{"-check", "-config", file}, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s: status %d, stderr %s", name, status, &stderr)
		}
		if strings.Contains(stdout.String(), "secret") {
			t.Errorf("%s: the password is shown", name)
		}
		testkit.Golden(t, *update, strings.TrimSuffix(file, ".yaml")+".txt", stdout.String())
	}
}

func TestCommandLine(t *testing.T) {
	bad := "../../testdata/master/bad.yaml"
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr []string
	}{
		{"-version", 0, []string{version + "\n"}, nil},
		{"-help", 0, []string{"-check", "-config", usualFile}, nil},
		{"-frobnicate", 2, nil, []string{"unknown flag: --frobnicate", "See tempomat-master --help"}},
		{"-check=perhaps", 2, nil, []string{"perhaps"}},
		{"-config", 2, nil, []string{"needs an argument"}},
		{"serve", 2, nil, []string{`unexpected argument "serve"`}},
		{"-check -config /nowhere/m.yaml", 1, nil, []string{"/nowhere/m.yaml"}},
		{"-config /nowhere/m.yaml", 1, nil, []string{"/nowhere/m.yaml"}},
		{"-check -config " + bad, 1, nil, []string{bad + ":3: domains.api.rate: ", bad + ":4: domains.www.cpu: ", bad + ":5: logs: "}},
		{"-config " + bad, 1, nil, []string{bad + ":3: ", bad + ":4: ", bad + ":5: "}},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		testkit.Same(t, c.status, status, "%s: status", c.args)
		if !testkit.HasAll(stdout.String(), c.stdout) || len(c.stdout) == 0 && stdout.Len() > 0 {
			t.Errorf("%s: stdout %q, want %q", c.args, &stdout, c.stdout)
		}
		if !testkit.HasAll(stderr.String(), c.stderr) || len(c.stderr) == 0 && stderr.Len() > 0 {
			t.Errorf("%s: stderr %q, want %q", c.args, &stderr, c.stderr)
		}
	}
}

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
