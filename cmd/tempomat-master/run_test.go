package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

// TestCheck: a file is read, and said what it means: ours, and one of the first
// master, whose rules are those of kind bucket.
func TestCheck(t *testing.T) {
	for _, name := range []string{"ours", "first"} {
		file := "../../testdata/master/" + name + ".yaml"
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), []string{"-check", "-config", file}, &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Errorf("%s: status %d, stderr %s", name, status, &stderr)
		}
		if strings.Contains(stdout.String(), "secret") {
			t.Errorf("%s: the password is shown", name)
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".txt"
		if *update {
			if err := os.WriteFile(golden, stdout.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), stdout.String()); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

func TestCommandLine(t *testing.T) {
	bad := "../../testdata/master/bad.yaml"
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr []string
	}{
		{"-version", 0, []string{version + "\n"}, nil},
		{"-help", 0, []string{"-check", "-config", usualFile}, nil},
		{"-frobnicate", 2, nil, []string{"unknown flag: --frobnicate", "See tempomat-master --help"}},
		{"-check=perhaps", 2, nil, []string{"perhaps"}},
		{"-config", 2, nil, []string{"needs an argument"}},
		{"serve", 2, nil, []string{`unexpected argument "serve"`}},
		{"-check -config /nowhere/m.yaml", 1, nil, []string{"/nowhere/m.yaml"}},
		{"-config /nowhere/m.yaml", 1, nil, []string{"/nowhere/m.yaml"}},
		{"-check -config " + bad, 1, nil, []string{bad + ":3: domains.api.rate: ", bad + ":4: domains.www.cpu: ", bad + ":5: logs: "}},
		{"-config " + bad, 1, nil, []string{bad + ":3: ", bad + ":4: ", bad + ":5: "}},
	} {
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), strings.Fields(c.args), &stdout, &stderr)
		if status != c.status {
			t.Errorf("%s: status %d, want %d", c.args, status, c.status)
		}
		if !hasAll(stdout.String(), c.stdout) || len(c.stdout) == 0 && stdout.Len() > 0 {
			t.Errorf("%s: stdout %q, want %q", c.args, &stdout, c.stdout)
		}
		if !hasAll(stderr.String(), c.stderr) || len(c.stderr) == 0 && stderr.Len() > 0 {
			t.Errorf("%s: stderr %q, want %q", c.args, &stderr, c.stderr)
		}
	}
}

// TestCommandLineOfTheProgram: its exit statuses are those of run.
func TestCommandLineOfTheProgram(t *testing.T) {
	if p := start(t, "-frobnicate"); p.exit() != 2 {
		t.Errorf("the exit status is %d", p.status)
	}
	if p := start(t, "-version"); p.exit() != 0 || p.stdout.String() != version+"\n" {
		t.Errorf("the exit status is %d, it says %q", p.status, &p.stdout)
	}
}
