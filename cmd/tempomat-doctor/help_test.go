package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tempomat/internal/testkit"
)

// TestEveryCommandIsExplained: each command has a long help and an example.
func TestEveryCommandIsExplained(t *testing.T) {
	root := (&doctor{}).tree()
	for _, c := range append(root.Commands(), root) {
		if c.Long == "" || !strings.Contains(c.Example, "tempomat-doctor") {
			t.Errorf("%s lacks its Long help or an Example", c.CommandPath())
		}
		if c.HasParent() && !strings.Contains(c.Example, "tempomat-doctor "+c.Name()) {
			t.Errorf("%s is not in its own example", c.CommandPath())
		}
	}
}

// TestManual: the manual page describes every command, and groff finds no fault in the page.
func TestManual(t *testing.T) {
	const page = "../../deploy/man/tempomat-doctor.1"
	text := testkit.ReadFile(t, page)
	for _, c := range (&doctor{}).tree().Commands() {
		if c.IsAvailableCommand() && !strings.Contains(text, "\n.B "+c.Name()) {
			t.Errorf("%s lacks the command %s", page, c.Name())
		}
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("no groff")
	}
	if out, err := exec.CommandContext(t.Context(), "groff", "-k", "-man", "-ww", "-Tutf8", "-z", page).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("groff: %v: %s", err, out)
	}
}

// TestCompletion: shells complete commands, flags and the values of flags.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"t"}, "top\tShow live"},
		{[]string{"--buck"}, "--bucket\tonly"},
		{[]string{"-sort", ""}, "cpu\nrate\n"},
		{[]string{"top", "-pane", "q"}, "queue\n"},
		{[]string{"explain", ""}, ":4\n"}, // no files
	} {
		code, stdout, _ := call(t, nil, append([]string{cobra.ShellCompRequestCmd}, c.words...)...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q: status %d, %q; want %q", c.words, code, stdout, c.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, script, stderr := call(t, nil, "completion", shell); code != 0 || !strings.Contains(script, "tempomat-doctor") {
			t.Errorf("%s: status %d, %s", shell, code, stderr)
		}
	}
}
