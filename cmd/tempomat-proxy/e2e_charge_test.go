package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
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
			t.Parallel()
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
	p.stderr.Await(t, 0, `"msg":"serving"`, `"mode":"fair"`, `"cpus":4`)
	if a := fetch(t, newClient(t), http.MethodGet, "http://127.0.0.1:"+port+"/page.php?ms=1", nil, nil); a.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}
