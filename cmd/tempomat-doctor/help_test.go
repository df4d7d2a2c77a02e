package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestEveryCommandIsExplained in its help.
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

// TestManual: the manual page has every command, and groff finds nothing wrong with it.
func TestManual(t *testing.T) {
	const page = "../../deploy/man/tempomat-doctor.1"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range (&doctor{}).tree().Commands() {
		if c.IsAvailableCommand() && !strings.Contains(string(text), "\n.B "+c.Name()) {
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

func TestCompletion(t *testing.T) {
	path := serveAdmin(t, nil)
	for _, c := range []struct {
		words []string
		want  string
		not   string
	}{
		{[]string{"t"}, "top\tShow live", "tables"},
		{[]string{""}, "master\tShow a", "tables"},
		{[]string{"--buck"}, "--bucket\tonly", ""},
		{[]string{"-buck"}, "-bucket\tonly", "--bucket"},
		{[]string{"-bucket=Slash24", "-so"}, "-sort\twhat", "--sort"},
		{[]string{"-sort", ""}, "cpu\nrate\n", "top"},
		{[]string{"-sort=l"}, "level\nlast\n", "--"}, // the shells drop what does not begin so
		{[]string{"top", "-pane", "q"}, "queue\n", "tables"},
		{[]string{"-socket", path, "-bucket", ""}, "slash32\nslash24\n", ""},
		{[]string{"explain", "--socket", path, "u"}, "userAgent\n", "203"},
		{[]string{"explain", "--socket", path, "slash32", ""}, ":4\n", "203"},
		{[]string{"explain", "--socket", "/nowhere", ""}, ":4\n", "slash"},
	} {
		code, stdout, _ := call(t, nil, append([]string{cobra.ShellCompRequestCmd}, c.words...)...)
		if code != 0 || !strings.Contains(stdout, c.want) || c.not != "" && strings.Contains(stdout, c.not) {
			t.Errorf("%q: status %d, %q; want %q, not %q", c.words, code, stdout, c.want, c.not)
		}
	}
}

// TestCompletionScripts: the shells take them, those that there are, and bash completes a
// flag with one dash.
func TestCompletionScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, script, stderr := call(t, nil, "completion", shell)
		if code != 0 || !strings.Contains(script, "tempomat-doctor") {
			t.Fatalf("%s: status %d, %s", shell, code, stderr)
		}
		file := filepath.Join(dir, shell)
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath(shell); err != nil || shell == "powershell" {
			continue
		}
		if out, err := exec.CommandContext(t.Context(), shell, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", shell, err, out)
		}
	}
	if err := os.Symlink(self, filepath.Join(dir, "tempomat-doctor")); err != nil {
		t.Fatal(err)
	}
	// Without the package bash-completion the script is given the words by hand.
	const drive = `source "$1/bash"
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
COMP_WORDS=(tempomat-doctor -bucket Slash24 -sor) COMP_CWORD=3 COMP_TYPE=9 COMP_LINE='tempomat-doctor -bucket Slash24 -sor' COMP_POINT=36
compopt() { :; }
_init_completion() { _get_comp_words_by_ref; }
__start_tempomat-doctor
printf '%s\n' "${COMPREPLY[@]}"`
	c := exec.CommandContext(t.Context(), "bash", "-c", drive, "bash", dir)
	c.Env = append(os.Environ(), asDoctor+"=1", "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := c.Output()
	if err != nil || strings.TrimSpace(string(out)) != "-sort" {
		t.Errorf("bash completes to %q, %v", out, err)
	}
}
