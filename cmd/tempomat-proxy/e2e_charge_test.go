package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tempomat/proxy/admin/api"
)

// slowly makes what accounts earn too little to see, so that a level tells the
// cost of all that was charged.
const slowly = `
cpuCount: 1
classes:
  slash32:   {share: 0.000001, burst: 1h}
  slash24:   {share: 0.000001, burst: 1h}
  slash16:   {share: 0.000001, burst: 1h}
  userAgent: {share: 0.000001, burst: 1h}
`

// charged is what a key was charged since the start, under slowly.
func (s *sidecarProcess) charged(class, id string) time.Duration {
	s.t.Helper()
	row, ok := s.account(class, id)
	if !ok {
		s.t.Fatalf("%s %s is not known", class, id)
	}
	return time.Duration((3600 - row.Level) * float64(time.Second))
}

// TestCharges compares what the doctor shows with what PHP says it used.
func TestCharges(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, slowly+"cost: {source: wall}\n")
	const client, pages = "198.51.100.77", 8
	c := newClient(t)
	var took time.Duration
	for range pages {
		h := http.Header{"X-Forwarded-For": {client}, "User-Agent": {"Fetcher/1.0"}}
		took += fetch(t, c, http.MethodGet, s.url+"/page.php?ms=50", h, nil).took
	}
	n, cpu := backend.cpu(client, 0, 1e12)
	if n != pages {
		t.Fatalf("PHP knows of %d pages, want %d", n, pages)
	}

	status, out, errs := s.doctor("--json", "--bucket", "slash32")
	if status != 0 {
		t.Fatalf("the doctor: %d %s", status, errs)
	}
	var reply api.BucketsReply
	if err := json.Unmarshal([]byte(out), &reply); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(reply.Rows) != 1 || reply.Total != 1 || reply.Rows[0].ID != client {
		t.Fatalf("the doctor shows %s", out)
	}
	// A page's cost is its wall time at the backend here: no less than its CPU time, and no more
	// than its client saw.
	cost := time.Duration((3600 - reply.Rows[0].Level) * float64(time.Second))
	t.Logf("%d pages: charged %v, PHP's CPU %v (ratio %.2f), the client's time %v", n, cost, cpu, cost.Seconds()/cpu.Seconds(), took)
	if cost < cpu*9/10 || cost > took {
		t.Errorf("charged %v, want PHP's CPU time %v to the client's time %v", cost, cpu, took)
	}
	for class, id := range map[string]string{"slash24": "198.51.100.0/24", "slash16": "198.51.0.0/16"} {
		if also := s.charged(class, id); (also - cost).Abs() > 100*time.Microsecond {
			t.Errorf("%s %s was charged %v, its client %v", class, id, also, cost)
		}
	}
	if r := reply.Rows[0]; r.CPU <= 0 || r.Rate <= 0 || r.Wait != 0 || r.Running != 0 {
		t.Errorf("the row is %+v", r)
	}
	looksLikeTheOriginal(t, s)
}

// looksLikeTheOriginal checks the doctor's tables.
func looksLikeTheOriginal(t *testing.T, s *sidecarProcess) {
	t.Helper()
	columns := regexp.MustCompile(`(?m)^Wait\[s\] +Cpu\[s\] +Req/s +Last\[s\] +Title$`)
	row := func(title string) *regexp.Regexp {
		return regexp.MustCompile(`(?m)^ +0\.00 +\d+\.\d\d +\d+\.\d\d +\d+  ` + regexp.QuoteMeta(title) + `$`)
	}
	_, all, _ := s.doctor()
	if n := len(columns.FindAllString(all, -1)); n != 4 {
		t.Errorf("%d tables, want 4:\n%s", n, all)
	}
	for _, title := range []string{"198.51.100.77", "198.51.100.0/24", "198.51.0.0/16"} {
		if !row(title).MatchString(all) {
			t.Errorf("no row of %s in:\n%s", title, all)
		}
	}
	// the original's name of a class, and its single dash
	for _, args := range [][]string{{"--bucket", "Slash24"}, {"-bucket=Slash24"}, {"--class", "slash24"}} {
		status, out, errs := s.doctor(args...)
		if status != 0 || len(columns.FindAllString(out, -1)) != 1 || !row("198.51.100.0/24").MatchString(out) ||
			strings.Contains(out, "198.51.100.77") {
			t.Errorf("%v: %d %s\n%s", args, status, errs, out)
		}
	}
	// what watch gives it to print on
	screen := []string{"COLUMNS=40", "LINES=20", "TEMPOMAT_ADMIN_LISTEN=unix:" + s.admin}
	_, small, _ := execute(t, screen, program(t, "tempomat-doctor"))
	lines := strings.Split(strings.TrimSuffix(small, "\n"), "\n")
	if len(lines) > 18 {
		t.Errorf("%d lines do not fit below the title of watch:\n%s", len(lines), small)
	}
	for _, line := range lines {
		if len([]rune(line)) > 40 {
			t.Errorf("%q is wider than 40 columns", line)
		}
	}
}

// TestCostHeader: the backend tells the cost, by the file that is shipped for
// that, and nobody else gets to know it.
func TestCostHeader(t *testing.T) {
	t.Parallel()
	backend := startApache(t, "--prepend", forEverybody(t, "../../deploy/apache/tempomat-cost.php"))
	if itself := fetch(t, newClient(t), http.MethodGet, backend.url+"/page.php?ms=1", nil, nil); itself.Header.Get("Tempomat-Cost") == "" {
		t.Fatal("the backend tells no cost")
	}
	for _, source := range []string{"header", "wall"} {
		t.Run(source, func(t *testing.T) {
			s := startProxy(t, backend.url, slowly+"cost: {source: "+source+"}\n")
			// php.log is of both
			pages, sleeps := map[string]string{"header": "203.0.113.1", "wall": "203.0.113.2"}[source], "198.51.100.2"
			var took time.Duration
			for range 3 {
				a := s.get(pages, "/page.php?ms=200")
				b := s.get(sleeps, "/sleep.php?ms=300")
				took += b.took
				for _, r := range []answer{a, b} {
					if v, ok := r.Header["Tempomat-Cost"]; ok || r.StatusCode != http.StatusOK {
						t.Errorf("%s: the client got Tempomat-Cost: %q", r.Status, v)
					}
				}
			}
			_, cpu := backend.cpu(pages, 0, 1e12)
			cost, slept := s.charged("slash32", pages), s.charged("slash32", sleeps)
			t.Logf("pages: charged %v, CPU %v; sleeps: charged %v of %v", cost, cpu, slept, took)
			if cost < cpu*9/10 {
				t.Errorf("charged %v for %v of CPU", cost, cpu)
			}
			if source == "header" && cost > cpu*3/2 {
				t.Errorf("charged %v for %v of CPU", cost, cpu)
			}
			// Sleeping costs no CPU. Only who was told so can know it.
			if told := slept < took/4; told != (source == "header") {
				t.Errorf("charged %v for %v of sleep", slept, took)
			}
		})
	}
}

// forEverybody copies a file to where Apache's workers, who may be another user,
// can read it.
func forEverybody(t *testing.T, name string) (copied string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	copied = filepath.Join(dir, filepath.Base(name))
	if err := errors.Join(os.WriteFile(copied, text, 0o644), os.Chmod(copied, 0o644), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return copied
}

// TestOriginalFile runs with the original's configuration.
func TestOriginalFile(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	dir := tempDir(t)
	file, port := filepath.Join(dir, "tempomat.json"), freePort(t)
	writeFile(t, file, fmt.Sprintf(`{"debug": false, "delayThresholdSec": 0.1, "backend": %q, "listenPort": %s,
	"trustedProxies": "127.0.0.1", "cpuCount": 4.0, "slash32Share": 0.1, "hashMaxLen": 100}`, backend.url, port))
	p := startProcess(t, []string{"TEMPOMAT_ADMIN_LISTEN=off"}, program(t, "tempomat-proxy"), "-config", file)
	p.stderr.await(t, 0, `"msg":"serving"`, `"mode":"fair"`, `"cpus":4`)
	if a := fetch(t, newClient(t), http.MethodGet, "http://127.0.0.1:"+port+"/page.php?ms=1", nil, nil); a.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}
