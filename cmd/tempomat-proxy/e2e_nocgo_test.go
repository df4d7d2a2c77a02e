//go:build world

package main

import (
	"debug/buildinfo"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
)

// TestWorldWithoutCgo: all programs can be built without cgo, but then don't support Smockron. A sidecar reports this
// and serves with its own accounts, and a master doesn't start.
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
		testkit.Must(t, err)
		if strings.Contains(info.String(), "CGO_ENABLED=1") {
			t.Fatalf("%s is built with cgo", path)
		}
	}

	t.Run("sidecar", func(t *testing.T) {
		backend := startBackend(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		s := startProxyAs(t, nil, []string{proxy}, backend, "coordination: {kind: smockron, smockron: {master: 127.0.0.1}}\n")
		s.Stderr.Await(t, 0, `"level":"error"`, `"msg":"accounts are not shared; this instance works alone"`, `"kind":"smockron"`, smockron.ErrNoZeroMQ.Error())
		testkit.Same(t, http.StatusNoContent, s.get("198.51.100.1", "/").StatusCode, "status")
	})
	t.Run("master", func(t *testing.T) {
		dir := tempDir(t)
		file := filepath.Join(dir, "master.yaml")
		testkit.ReplaceFile(t, file, "listen: ipc://"+dir+"/m\nadmin: {listen: \"unix:"+dir+"/a\"}\ndomains: {a: {rate: 5/sec, burst: 10}}\n")
		status, out, errs := testkit.Execute(t, nil, master, "-config", file)
		if status != 1 || out != "" || !strings.HasSuffix(errs, "\n"+smockron.ErrNoZeroMQ.Error()+"\n") {
			t.Errorf("status %d, stdout %q, stderr %q", status, out, errs)
		}
		if strings.Contains(errs, `"msg":"serving"`) {
			t.Errorf("it says that it serves: %q", errs)
		}
		if status, out, errs := testkit.Execute(t, nil, master, "-check", "-config", file); status != 0 || errs != "" || !strings.Contains(out, " is valid\n") {
			t.Errorf("-check: status %d, stdout %q, stderr %q", status, out, errs)
		}
	})
}
