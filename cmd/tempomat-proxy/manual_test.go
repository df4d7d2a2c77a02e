package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

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
