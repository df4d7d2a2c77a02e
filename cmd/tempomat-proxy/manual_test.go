package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestManual: the manual page has each flag that the program has, and no other.
func TestManual(t *testing.T) {
	page, err := os.ReadFile("../../deploy/man/tempomat-proxy.8")
	if err != nil {
		t.Fatal(err)
	}
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
		if !strings.Contains(string(page), "\n.B \\-"+m[1]+"\n") && !strings.Contains(string(page), "\n.BI \\-"+m[1]+" ") {
			t.Errorf("the manual does not explain -%s", m[1])
		}
	}
	if len(has) < 4 {
		t.Fatalf("the help has few flags: %q", help.String())
	}
	for _, m := range regexp.MustCompile(`(?m)^\.BI? \\-([a-z-]+)`).FindAllStringSubmatch(string(page), -1) {
		if !has[m[1]] {
			t.Errorf("the manual explains -%s, which is not there", m[1])
		}
	}
}
