package main

import (
	"strings"
	"testing"
)

// TestCommands: the commands that there are, and what is none is refused with a hint.
func TestCommands(t *testing.T) {
	for args, want := range map[string]struct {
		status   int
		out, err []string
	}{
		"help":               {0, []string{"tempomat-proxy [flags]", "\n  setup ", "--check", "--config file"}, nil},
		"-help":              {0, []string{"--config file"}, nil},
		"setup -help":        {0, []string{"--write", "--undo"}, nil},
		"config docs":        {0, []string{"## Reference\n", "#### `throttle.maxHold`\n"}, nil},
		"config schema":      {0, []string{`"https://json-schema.org/draft/2020-12/schema"`, `"maxHold"`}, nil},
		"config docs x":      {2, nil, []string{`unexpected argument "x"`}},
		"config schema -x":   {2, nil, []string{`unknown shorthand flag: 'x'`}},
		"config":             {0, []string{"docs ", "schema "}, nil},
		"setup -write -undo": {2, nil, []string{"setup takes -write or -undo, not both"}},
		"serve":              {2, nil, []string{`tempomat-proxy: unknown command "serve"`, "See tempomat-proxy --help"}},
		"\x1b[2J":            {2, nil, []string{`unknown command "\x1b[2J"`}},
		"-check more":        {2, nil, []string{`unknown command "more"`}},
		"-demo-attack":       {2, nil, []string{"unknown flag: --demo-attack"}},
		"-v":                 {2, nil, []string{"-v goes with -check only"}},
	} {
		var out, errs strings.Builder
		status := run(t.Context(), strings.Fields(args), nil, &out, &errs)
		if status != want.status || (out.Len() > 0) != (want.out != nil) || (errs.Len() > 0) != (want.err != nil) {
			t.Errorf("%s: status %d, want %d\nstdout: %s\nstderr: %s", args, status, want.status, &out, &errs)
		}
		for _, part := range want.out {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: no %q in stdout: %s", args, part, &out)
			}
		}
		for _, part := range want.err {
			if !strings.Contains(errs.String(), part) {
				t.Errorf("%s: no %q in stderr: %s", args, part, &errs)
			}
		}
	}
}

// TestThePackagesFileChangesNothing: setup may replace it, and no file with a setting.
func TestThePackagesFileChangesNothing(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"../../deploy/package/tempomat.yaml": true, "../../deploy/tempomat.yaml": true, "../../testdata/config/good/limits.yaml": false} {
		if got := changesNothing(file); got != want {
			t.Errorf("%s: %v", file, got)
		}
	}
}
