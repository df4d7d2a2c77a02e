package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestDoctorShowsSharing: the doctor tells of each way to share what it is, with
// whom, and how it goes, as lines of a name and a value.
func TestDoctorShowsSharing(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	r := testkit.StartRedis(t)
	m := startMaster(t, "domains: {shop.slash32: {rule: credit, cpus: 0.1}}\n")
	gossip := testkit.FreeAddress(t)
	line, section := regexp.MustCompile(`^  [a-zA-Z0-9.]+ {2,}\S.*$`), regexp.MustCompile(`(?m)^sharing .*\n((?:  .*\n)*)`)
	for kind, c := range map[string]struct {
		yaml string
		want []string // lines, with one blank between name and value
	}{
		"none":     {"", nil},
		"smockron": {m.coordination(), []string{"1.master " + m.address, "1.present true", "1.synced true", "1.domains shop.slash32", "1.dropped 0"}},
		"redis": {"coordination: {kind: redis, redis: {addresses: [" + r.Address + "]}}\n",
			[]string{"connected true", "failures 0", "dropped 0", "lastContact 2"}},
		"gossip": {"coordination: {kind: gossip, gossip: {listen: " + gossip + ", join: " + gossip + "}}\n",
			[]string{"sidecars 1", "name ", "counts."}},
	} {
		t.Run(kind, func(t *testing.T) {
			s := startProxy(t, backend.url, "classes: {slash24: off, slash16: off, userAgent: off}\n"+c.yaml)
			s.get("198.51.100.1", "/style.css")
			var out string
			testkit.Eventually(t, "it shows "+strings.Join(c.want, ", "), func() bool {
				status, shown, errs := s.doctor("status")
				if status != 0 || errs != "" {
					t.Fatalf("status %d: %s", status, errs)
				}
				out = shown
				return hasAll(regexp.MustCompile(" +").ReplaceAllString(out, " "), append(c.want, "sharing "+kind+"\n"))
			})
			for l := range strings.Lines(section.FindStringSubmatch(out)[1]) {
				if l = strings.TrimSuffix(l, "\n"); !line.MatchString(l) || strings.Contains(l, "e+") || strings.Contains(l, "0001-01-01") {
					t.Errorf("not legible: %q in\n%s", l, out)
				}
			}
			t.Logf("\n%s", out)
		})
	}
}

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
