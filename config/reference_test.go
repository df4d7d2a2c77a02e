package config

import (
	"os"
	"strings"
	"testing"

	"tempomat/config/form"
)

// TestManualHoldsTheReference: the end of the manual is what "tempomat-proxy config
// docs" prints. "make docs-config" rewrites it.
func TestManualHoldsTheReference(t *testing.T) {
	const manual, begin = "../docs/configuration.md", "from the table in package config. -->\n\n"
	data, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(data), begin)
	if !found {
		t.Fatalf("%s has no mark where the reference begins", manual)
	}
	var b strings.Builder
	Reference(&b)
	golden(t, manual, before+begin+b.String())
}

// TestEveryKeyIsExplained: in whole sentences, and with what is allowed.
func TestEveryKeyIsExplained(t *testing.T) {
	explained := func(path string, s form.Setting) {
		if !strings.HasSuffix(strings.TrimSuffix(s.Doc, ")"), ".") || s.Allowed() == "" {
			t.Errorf("%s: %q, allowed: %q", path, s.Doc, s.Allowed())
		}
	}
	for _, s := range settings(newDraft(Default())) {
		if s.Legacy || s.AliasOf != "" || s.Went() {
			continue
		}
		explained(s.Path, s)
		for _, m := range s.Value.Spec().Members {
			if !m.Went() {
				explained(s.Path+"[]."+m.Path, m)
			}
		}
	}
}
