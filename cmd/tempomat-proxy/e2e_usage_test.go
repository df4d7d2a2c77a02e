package main

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestOthersUseIsNotTheBackends: programs that fill the CPUs beside an idle Apache do not make them short
// for its pages.
func TestOthersUseIsNotTheBackends(t *testing.T) {
	s := startProxy(t, startApache(t).url, "cpuCount: 0\n")
	s.get("198.51.100.1", "/style.css")
	for range runtime.NumCPU() {
		burner := exec.Command("sh", "-c", "ulimit -t 60; while :; do :; done") // it ends by itself, whatever becomes of the test
		if err := burner.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = burner.Process.Kill(); _ = burner.Wait() })
	}
	idle, at := idleTicks(t), time.Now()
	testkit.Eventually(t, "the CPUs are full, and not for the backend", func() bool {
		if time.Since(at) < 1500*time.Millisecond { // the use is measured twice a second
			return false
		}
		before := idle
		idle, at = idleTicks(t), time.Now()
		var g limiter.GateState
		s.ask("/v1/gate", &g)
		return idle-before < 10 && g.Utilisation >= 0 && g.Utilisation < 0.5
	})
}

// idleTicks is for how long this machine's CPUs have been idle, in hundredths of a second.
func idleTicks(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(strings.Fields(string(text))[4], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
