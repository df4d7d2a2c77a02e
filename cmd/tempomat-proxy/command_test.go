package main

import (
	"strings"
	"testing"
)

// TestCommands: a first argument without a dash is a command, and what is none is
// refused with those that there are.
func TestCommands(t *testing.T) {
	for args, want := range map[string]struct {
		status   int
		out, err []string
	}{
		"help":             {0, []string{"usage: tempomat-proxy", "\ncommands\n", "\n  help\n", "\noptions", "-check"}, nil},
		"-help":            {0, nil, []string{"\ncommands\n", "-config file"}},
		"config docs":      {0, []string{"## Reference\n", "#### `throttle.maxHold`\n"}, nil},
		"config schema":    {0, []string{`"https://json-schema.org/draft/2020-12/schema"`, `"maxHold"`}, nil},
		"config docs x":    {2, nil, []string{`config docs takes no arguments; "x" is one`}},
		"config schema -x": {2, nil, []string{`config schema takes no arguments; "-x" is one`}},
		"config":           {2, nil, []string{`unknown command "config"; there are: config docs, config schema. `}},
		"help me":          {2, nil, []string{`help takes no arguments; "me" is one`}},
		"demo-site now":    {2, nil, []string{`demo-site takes no arguments; "now" is one`}},
		"serve":            {2, nil, []string{`unknown command "serve"; there are: config docs`, `"tempomat-proxy help" tells more`}},
		"Help":             {2, nil, []string{`unknown command "Help"`}},
		"-check help":      {2, nil, []string{`unexpected argument "help"; a command stands before all options`}},
		"-check more":      {2, nil, []string{"unexpected argument \"more\"\n"}},
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

// TestCommandGroup: of two words the first one leads to those of its group, and the
// longer name does not hide the shorter one.
func TestCommandGroup(t *testing.T) {
	all := []command{{name: "fruit eat", summary: "eat it"}, {name: "fruit buy", summary: "buy it"}, {name: "run", summary: "run"}, {name: "secret"}}
	for args, want := range map[string]string{
		"fruit eat":          "fruit eat []",
		"fruit buy -n apple": "fruit buy [-n apple]",
		"run fruit":          "run [fruit]",
	} {
		c, rest := findCommand(all, strings.Fields(args))
		if c == nil || c.name+" ["+strings.Join(rest, " ")+"]" != want {
			t.Errorf("%s: %v %q, want %s", args, c, rest, want)
		}
	}
	for args, want := range map[string]string{
		"fruit":      `unknown command "fruit"; there are: fruit eat, fruit buy. `,
		"fruit sell": `unknown command "fruit sell"; there are: fruit eat, fruit buy. `,
		"walk away":  `unknown command "walk"; there are: fruit eat, fruit buy, run. `,
		"\x1b[2J":    `unknown command "\x1b[2J"; `,
	} {
		var errs strings.Builder
		if c, _ := findCommand(all, strings.Fields(args)); c != nil {
			t.Errorf("%s is %s", args, c.name)
		}
		if status := unknownCommand(all, strings.Fields(args), &errs); status != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %s", args, status, errs.String())
		}
	}
}
