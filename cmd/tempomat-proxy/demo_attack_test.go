//go:build world

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"tempomat/cmd/tempomat-proxy/internal/demo"
)

// TestWorldDemoAttack runs the demonstration for a moment. How much faster people are
// is for a longer one to show; here both lines of the table are there, people and
// the crawler got pages, and nothing is left.
func TestWorldDemoAttack(t *testing.T) {
	tmp := tempDir(t)
	t.Setenv("TMPDIR", tmp)
	var said string
	stderr := newOutput()
	// A page that the crawler asks for takes seconds where there is no gate, and
	// longer on a machine that has other things to do: then it gets more time.
	for measure := 5 * time.Second; measure <= 20*time.Second; measure *= 2 {
		stdout := newOutput()
		times := demo.Times{Settle: 500 * time.Millisecond, Measure: measure}
		if err := runDemoAttack(t.Context(), source{}, times, stdout, stderr); err != nil {
			t.Fatal(err)
		}
		if said = stdout.String(); !strings.Contains(said, " 0.0 pages/s") {
			break
		}
	}
	for _, want := range []string{"people", "without the gate ", "with the gate ", "95 of 100 pages came within"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, " 0.0 pages/s") {
		t.Errorf("somebody got nothing:\n%s", said)
	}
	if out := stderr.String(); strings.TrimSpace(out) != "" {
		t.Errorf("it complains: %s", out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
