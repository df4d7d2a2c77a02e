package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// slowly makes accounts earn so little that their levels show the sum of all charges.
const slowly = `
cpuCount: 1
classes:
  slash32:   {share: 0.000001, burst: 1h}
  slash24:   {share: 0.000001, burst: 1h}
  slash16:   {share: 0.000001, burst: 1h}
  userAgent: {share: 0.000001, burst: 1h}
`

// charged returns the CPU time that a key was charged since the start. The proxy must be configured with slowly.
func (s *sidecarProcess) charged(class, id string) time.Duration {
	s.t.Helper()
	row, ok := s.account(class, id)
	if !ok {
		s.t.Fatalf("%s %s is not known", class, id)
	}
	return time.Duration((3600 - row.Level) * float64(time.Second))
}

// TestCostHeader: the backend reports costs with the file that tempomat ships, and no client sees them.
func TestCostHeader(t *testing.T) {
	t.Parallel()
	backend := startApache(t, "--prepend", forEverybody(t, "../../deploy/apache/tempomat-cost.php"))
	if itself := fetch(t, newClient(t), http.MethodGet, backend.url+"/page.php?ms=1", nil, nil); itself.Header.Get("Tempomat-Cost") == "" {
		t.Fatal("the backend tells no cost")
	}
	s := startProxy(t, backend.url, slowly+"cost: {source: header}\n")
	const pages, sleeps = "203.0.113.1", "198.51.100.2"
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
	cpu, cost, slept := backend.cpu(pages), s.charged("slash32", pages), s.charged("slash32", sleeps)
	if cost < cpu*9/10 || cost > 2*cpu {
		t.Errorf("charged %v for %v of CPU", cost, cpu)
	}
	if slept >= took/4 { // sleeping uses no CPU time
		t.Errorf("charged %v for %v of sleep", slept, took)
	}
}

// forEverybody copies a file to a place where Apache's workers, which may run as another user, can read it.
func forEverybody(t *testing.T, name string) (copied string) {
	t.Helper()
	dir := tempDir(t)
	copied = filepath.Join(dir, filepath.Base(name))
	testkit.WriteFile(t, copied, testkit.ReadFile(t, name), 0o644)
	testkit.Must(t, errors.Join(os.Chmod(copied, 0o644), os.Chmod(dir, 0o755)))
	return copied
}
