//go:build accept

package main

import (
	"strings"
	"testing"
)

// TestAcceptOriginalFile reads the original's sample.
func TestAcceptOriginalFile(t *testing.T) {
	status, out, errs := execute(t, nil, program(t, "tempomat-proxy"), "-check", "-v", "-config", "../../testdata/config/good/tempomat.json")
	if status != 0 {
		t.Fatalf("%d %s", status, errs)
	}
	_, limits, _ := strings.Cut(out, "\nlimits\n")
	t.Logf("effective limits\n%s", limits)
	for class, want := range map[string]string{
		"slash32": "0.4 CPU-s/s", "slash24": "1 CPU-s/s", "slash16": "2 CPU-s/s", "userAgent": "0.4 CPU-s/s",
	} {
		found := false
		for line := range strings.Lines(limits) {
			words := strings.Fields(line)
			found = found || len(words) > 2 && words[0] == class && strings.Join(words[1:3], " ") == want
		}
		if !found {
			t.Errorf("%s is not said to have %s", class, want)
		}
	}
}
