package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/host"
	"tempomat/proxy/telemetry/metrics"
)

// TestKernelReply checks that a missing feature is shown once, with a remedy, and only if it is
// missing.
func TestKernelReply(t *testing.T) {
	forbidden := fmt.Errorf("this process isn't allowed to raise a priority again (it needs CAP_SYS_NICE): %w", fs.ErrPermission)
	known := cpuaccount.Sums{Process: time.Second, Requests: cpuaccount.Requests{Process: 3}}
	for name, c := range map[string]struct {
		costs       cpuaccount.Sums
		on          bool
		bill, steps error
		acts        bool
		missing     []string // what doesn't work, and a word of the remedy
	}{
		"all is there":                     {known, true, nil, nil, true, nil},
		"nothing was seen yet":             {cpuaccount.Sums{}, true, nil, nil, true, nil},
		"workers tell, as none are found":  {known, true, host.ErrRight, nil, true, nil},
		"no right to see":                  {cpuaccount.Sums{}, true, host.ErrRight, nil, false, []string{"costs exact-bill.conf"}},
		"the socket cannot be":             {cpuaccount.Sums{}, true, fmt.Errorf("%w: %w", errDeaf, fs.ErrNotExist), nil, false, []string{"costs directory"}},
		"nobody tells":                     {cpuaccount.Sums{}, true, fmt.Errorf("%w: %w", errUntold, host.ErrRight), nil, false, []string{"costs TEMPOMAT_SOCKET"}},
		"in another container":             {cpuaccount.Sums{}, true, host.ErrHidden, nil, false, []string{"costs --pid"}},
		"in another network":               {cpuaccount.Sums{}, true, host.ErrElsewhere, nil, false, []string{"costs --pid"}},
		"no right to raise":                {known, false, nil, forbidden, false, []string{"priority priority.conf"}},
		"neither right":                    {cpuaccount.Sums{}, false, host.ErrRight, forbidden, false, []string{"costs cost.socket", "priority SYS_NICE"}},
		"given up in between":              {known, false, nil, forbidden, false, []string{"priority SYS_NICE"}},
		"another machine, told once":       {cpuaccount.Sums{}, false, errElsewhere, errElsewhere, false, []string{"costs localhost"}},
		"another source, told once":        {cpuaccount.Sums{}, false, errNotMeasured, errNotMeasured, false, []string{"costs cost.source: auto"}},
		"told by the backend":              {cpuaccount.Sums{Requests: cpuaccount.Requests{Told: 1}}, false, errNotMeasured, errNotMeasured, false, []string{"priority cost.source: auto"}},
		"switched off, nothing is missing": {known, false, nil, errNotWanted, false, nil},
		"something else":                   {known, false, nil, errors.New("a full disk"), false, []string{"priority "}},
	} {
		k := kernelReply(c.costs, time.Minute, metrics.Priorities{On: c.on}, c.bill, c.steps)
		if k.Steps != c.acts || len(k.Missing) != len(c.missing) {
			t.Errorf("%s: steps down: %t, missing: %+v", name, k.Steps, k.Missing)
			continue
		}
		for i, m := range k.Missing {
			of, word, _ := strings.Cut(c.missing[i], " ")
			if m.For != of || m.What == "" || !strings.Contains(m.Remedy, word) || (word == "") != (m.Remedy == "") {
				t.Errorf("%s: %+v, want %s", name, m, c.missing[i])
			}
		}
	}
}

func TestKernelReplyHasAllNumbers(t *testing.T) {
	costs := cpuaccount.Sums{
		Process: 1500 * time.Millisecond, Database: 2 * time.Second, Told: 3 * time.Second, Estimated: 4 * time.Second,
		Requests: cpuaccount.Requests{Process: 1, Told: 2, Estimated: 3},
	}
	p := metrics.Priorities{On: true, PriorityCounts: host.PriorityCounts{Steps: [host.Steps]uint64{9, 8, 7}, Lowered: 2}}
	want := api.Kernel{
		Seconds: 65, Steps: true, Lowered: 2,
		Costs:   []api.CostRow{{Source: "process", CPU: 1.5, Requests: 1}, {Source: "database", CPU: 2}, {Source: "header", CPU: 3, Requests: 2}, {Source: "estimate", CPU: 4, Requests: 3}},
		Stepped: []api.StepRow{{Below: 5, Steps: 9}, {Below: 10, Steps: 8}, {Below: 20, Steps: 7}},
		Missing: []api.MissingRow{},
	}
	testkit.Same(t, want, kernelReply(costs, 65*time.Second, p, nil, nil), "the reply")
}

// TestRemediesAreDescribed checks that the files named in a remedy exist.
func TestRemediesAreDescribed(t *testing.T) {
	for _, err := range []error{errNotMeasured, errElsewhere, errDeaf, errUntold, host.ErrRight, host.ErrHidden, host.ErrElsewhere, fs.ErrPermission} {
		_, rest, _ := strings.Cut(remedy(err), "(docs/")
		name, _, ok := strings.Cut(rest, ".md")
		if _, missing := os.Stat(filepath.Join("..", "..", "docs", name+".md")); !ok || missing != nil {
			t.Errorf("%v: %s: %v", err, remedy(err), missing)
		}
	}
}

// TestCPUsAreAskedFor: if the backend's CPU use can't be measured, the proxy warns until the number of its CPUs is set.
func TestCPUsAreAskedFor(t *testing.T) {
	for cpus, want := range map[float64]int{0: 1, 2: 0} {
		core, said := observer.New(zapcore.WarnLevel)
		c := config.Config{Traffic: config.Traffic{Backend: config.Backend{URL: "http://192.0.2.1"}, CPUCount: cpus}}
		s := sidecar{config: &c, logs: &logs{log: zap.New(core)}}
		if s.openUsage(nil) != nil || said.Len() != want {
			t.Errorf("cpuCount %g: %v", cpus, said.All())
		}
	}
}

// TestElsewhereIsSaid: with cost.source process, the proxy warns of a backend on another machine. With auto, it doesn't.
func TestElsewhereIsSaid(t *testing.T) {
	for source, want := range map[string]int{"process": 1, "auto": 0} {
		core, logs := observer.New(zapcore.WarnLevel)
		b := &bills{log: zap.New(core)}
		b.restart(&config.Config{Traffic: config.Traffic{Backend: config.Backend{URL: "http://192.0.2.1"}}, Cost: config.Cost{Source: source}})
		if got := logs.Len(); got != want || !errors.Is(b.lacks(), errElsewhere) {
			t.Errorf("%s: %d warnings, want %d; %v", source, got, want, b.lacks())
		}
	}
}
