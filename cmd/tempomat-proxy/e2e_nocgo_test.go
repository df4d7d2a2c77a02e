//go:build world

package main

import (
	"debug/buildinfo"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
)

// TestWorldWithoutCgo: all programs can be built without cgo. Smockron is not in them
// then: a sidecar says so and serves by its own accounts, and a master does not
// begin.
func TestWorldWithoutCgo(t *testing.T) {
	t.Parallel()
	bin := tempDir(t)
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", bin+"/", "tempomat/cmd/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	proxy, master := filepath.Join(bin, "tempomat-proxy"), filepath.Join(bin, "tempomat-master")
	for _, path := range []string{proxy, master} {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info.String(), "CGO_ENABLED=1") {
			t.Fatalf("%s is built with cgo", path)
		}
	}

	t.Run("sidecar", func(t *testing.T) {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		t.Cleanup(backend.Close)
		s := startProxyAs(t, nil, []string{proxy}, backend.URL, "coordination: {kind: smockron, smockron: {master: 127.0.0.1}}\n")
		s.stderr.Await(t, 0, `"level":"error"`, `"msg":"accounts are not shared; this instance works alone"`, `"kind":"smockron"`, smockron.ErrNoZeroMQ.Error())
		if a := s.get("198.51.100.1", "/"); a.StatusCode != http.StatusNoContent {
			t.Errorf("it answers %s", a.Status)
		}
		if row, known := s.account("slash32", "198.51.100.1"); !known || row.Level <= 0 {
			t.Errorf("its own account is %+v", row)
		}
		testkit.Eventually(t, "the doctor says why", func() bool {
			status, out, errs := s.doctor("status")
			if status != 0 || errs != "" {
				t.Fatalf("status %d: %s", status, errs)
			}
			return strings.Contains(out, "trouble") && strings.Contains(out, smockron.ErrNoZeroMQ.Error())
		})
	})
	t.Run("master", func(t *testing.T) {
		dir := tempDir(t)
		file := filepath.Join(dir, "master.yaml")
		writeFile(t, file, "listen: ipc://"+dir+"/m\nadmin: {listen: \"unix:"+dir+"/a\"}\ndomains: {a: {rate: 5/sec, burst: 10}}\n")
		status, out, errs := execute(t, nil, master, "-config", file)
		if status != 1 || out != "" || !strings.HasSuffix(errs, "\n"+smockron.ErrNoZeroMQ.Error()+"\n") {
			t.Errorf("status %d, stdout %q, stderr %q", status, out, errs)
		}
		if strings.Contains(errs, `"msg":"serving"`) {
			t.Errorf("it says that it serves: %q", errs)
		}
		if status, out, errs := execute(t, nil, master, "-check", "-config", file); status != 0 || errs != "" || !strings.Contains(out, " is valid\n") {
			t.Errorf("-check: status %d, stdout %q, stderr %q", status, out, errs)
		}
	})
}
