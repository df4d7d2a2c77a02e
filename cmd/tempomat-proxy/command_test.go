package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestCommands checks the output of the commands, the hints for unknown commands and flags, and the errors for files
// that can't be served.
func TestCommands(t *testing.T) {
	at, dir := testkit.Listen(t).Addr().String(), t.TempDir()
	good, bad, busy, none := dir+"/good.yaml", dir+"/bad.yaml", dir+"/busy.yaml", dir+"/none.yaml"
	testkit.WriteFile(t, good, "listen: 127.0.0.1:0\nbackend: http://127.0.0.1:1\nadmin: {listen: off}\n", 0o600)
	testkit.WriteFile(t, bad, "throttle: {mode: fast}\n", 0o600)
	testkit.WriteFile(t, busy, "listen: ["+at+"]\nbackend: http://127.0.0.1:1\nadmin: {listen: off}\n", 0o600)
	for args, want := range map[string]struct {
		status   int
		out, err []string
	}{
		"help":               {0, []string{"tempomat-proxy [flags]", "\n setup ", "--check", "--config file"}, nil},
		"-help":              {0, []string{"--config file"}, nil},
		"setup -help":        {0, []string{"--write", "--undo"}, nil},
		"setup -write -undo": {2, nil, []string{"setup takes -write or -undo, not both"}},
		"serve":              {2, nil, []string{`tempomat-proxy: unknown command "serve"`, "See tempomat-proxy --help"}},
		"\x1b[2J":            {2, nil, []string{`unknown command "\x1b[2J"`}},
		"-check more":        {2, nil, []string{`unknown command "more"`}},
		"-demo-attack":       {2, nil, []string{"unknown flag: --demo-attack"}},
		"-v":                 {2, nil, []string{"-v requires -check"}},
		"-config":            {2, nil, []string{"flag needs an argument: --config"}},
		"-version":           {0, []string{version + "\n"}, nil},

		"-config " + bad:         {1, nil, []string{bad + ":1: throttle.mode: fast: must be"}},
		"-check -config " + bad:  {1, nil, []string{bad + ":1: throttle.mode: fast: must be"}},
		"-config " + none:        {1, nil, []string{"none.yaml: no such file or directory\nCheck the path, or make the file: " + setupHint}},
		"-check -config " + none: {1, nil, []string{"none.yaml: no such file or directory\nCheck the path, or make the file: " + setupHint}},
		"-config " + busy:        {1, nil, []string{"listen on " + at + ": listen tcp " + at + ": bind: address already in use"}},
		"-check -config " + good: {0, []string{good + " is valid\n"}, nil},
		// a check opens no port, so it doesn't matter that this one is in use
		"-check -config " + busy:    {0, []string{"\nadmin.listen off\n"}, nil},
		"-check -v -config " + busy: {0, []string{"\nadmin.listen off\n"}, nil},
	} {
		var out, errs strings.Builder
		status := run(t.Context(), strings.Fields(args), nil, &out, &errs)
		columns := regexp.MustCompile(" +").ReplaceAllString(out.String(), " ") // the width of columns doesn't matter
		if status != want.status || (out.Len() > 0) != (want.out != nil) || (errs.Len() > 0) != (want.err != nil) ||
			!testkit.HasAll(columns, want.out) || !testkit.HasAll(errs.String(), want.err) {
			t.Errorf("%s: status %d, want %+v\nstdout: %s\nstderr: %s", args, status, want, &out, &errs)
		}
	}
}

// TestThePackagesFileChangesNothing: setup may replace the package's file, but not a file that sets a key.
func TestThePackagesFileChangesNothing(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"../../deploy/package/tempomat.yaml": true, "../../deploy/tempomat.yaml": true, "../../testdata/config/good/limits.yaml": false} {
		testkit.Same(t, want, changesNothing(file), "%s changes nothing", file)
	}
}

// TestManual: the manual page describes exactly the program's flags and commands.
func TestManual(t *testing.T) {
	page := testkit.ReadFile(t, "../../deploy/man/tempomat-proxy.8")
	var help bytes.Buffer
	if status := run(t.Context(), []string{"-help"}, nil, &help, &bytes.Buffer{}); status != 0 {
		t.Fatalf("-help: %d", status)
	}
	has := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  (?:    |-., )--([a-z]+)`).FindAllStringSubmatch(help.String(), -1) {
		if m[1] == "verbose" {
			m[1] = "v"
		} else if m[1] == "help" {
			continue
		}
		has[m[1]] = true
		if !strings.Contains(page, "\n.B \\-"+m[1]+"\n") && !strings.Contains(page, "\n.BI \\-"+m[1]+" ") {
			t.Errorf("the manual does not explain -%s", m[1])
		}
	}
	if len(has) < 4 {
		t.Fatalf("the help has few flags: %q", help.String())
	}
	for _, m := range regexp.MustCompile(`(?m)^\.BI? \\-([a-z-]+)`).FindAllStringSubmatch(page, -1) {
		if !has[m[1]] {
			t.Errorf("the manual explains -%s, which is not there", m[1])
		}
	}
	root := commandLine(nil, nil, nil, nil)
	for _, c := range root.Commands() {
		if !strings.Contains(page, "\n.B tempomat-proxy "+c.Name()+"\n") {
			t.Errorf("the manual does not show the command %s", c.Name())
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\.B tempomat-proxy ([a-z]+)$`).FindAllStringSubmatch(page, -1) {
		if c, _, err := root.Find(m[1:]); err != nil || c == root {
			t.Errorf("the manual shows the command %s, which is not there", m[1])
		}
	}
}
