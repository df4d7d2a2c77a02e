package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestDoctorShowsMaster: the doctor finds its way around a real master, after a
// sidecar told that of one client.
func TestDoctorShowsMaster(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	m := startMaster(t, "domains: {shop.slash32: {rule: credit, cpus: 0.0001, burst: 0s}, counted: }\n")
	s := startFleet(t, 1, m, backend.url, "classes: {slash24: off, slash16: off, userAgent: off}\n")[0]
	const client = "198.51.100.9"
	s.get(client, "/page.php?ms=50")
	doctor := func(args ...string) (out string) {
		t.Helper()
		socket := filepath.Join(filepath.Dir(m.file), "admin")
		status, out, errs := execute(t, nil, program(t, "tempomat-doctor"), append(args, "--socket", socket)...)
		if status != 0 || errs != "" {
			t.Fatalf("%q: status %d: %s", args, status, errs)
		}
		return regexp.MustCompile(" +").ReplaceAllString(out, " ")
	}
	testkit.Eventually(t, "the client waits", func() bool {
		return regexp.MustCompile(`(?m)^ ?[1-9][0-9.]* 20[0-9-]+ [0-9:.]+ 198\.51\.100\.9$`).MatchString(doctor("master", "shop.slash32"))
	})
	out := doctor("master")
	for _, want := range []string{
		"release " + builtVersion + "\n", "counts.overload 0\n", "|domains 2\n",
		" counted no rules: only counted\n", " 1 0 0 1 1 1 shop.slash32 credit 0.0001 CPU-s/s, burst 0s\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if out := doctor("reload"); out != "reloaded\n" {
		t.Errorf("reload says %q", out)
	}
	if out := doctor("master"); !strings.Contains(out, "reloads 1\nreloadsRejected 0\n") {
		t.Errorf("after a reload: %s", out)
	}
}
