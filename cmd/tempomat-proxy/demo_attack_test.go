//go:build world

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestWorldDemoAttack runs make demo-attack for a moment. This is too short to show that people's pages become
// faster. The test checks that both lines of the table are printed, that people and the crawler get pages, and that
// no files are left.
func TestWorldDemoAttack(t *testing.T) {
	tmp := tempDir(t)
	attack := tmp + "/attack"
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", attack, "../../testdata/demo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	left := tempDir(t)
	var said, errs string
	// Without a gate, a page that the crawler requests takes seconds, and more on a busy machine.
	for _, measure := range []string{"5s", "10s", "20s"} {
		var status int
		if status, said, errs = testkit.Execute(t, []string{"TMPDIR=" + left}, attack, "-attack", "-program", program(t, "tempomat-proxy"), "-settle", "500ms", "-measure", measure); status != 0 {
			t.Fatalf("status %d, %s", status, errs)
		}
		if !strings.Contains(said, " 0.0 pages/s") {
			break
		}
	}
	for _, want := range []string{"people", "without the gate ", "with the gate ", "95 % of the pages arrived within"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, " 0.0 pages/s") {
		t.Errorf("somebody got nothing:\n%s", said)
	}
	if strings.TrimSpace(errs) != "" {
		t.Errorf("it complains: %s", errs)
	}
	if files, err := os.ReadDir(left); err != nil || len(files) != 0 {
		t.Errorf("left behind: %v %v", files, err)
	}
}
