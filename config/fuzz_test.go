package config

import (
	"errors"
	"strings"
	"testing"

	"tempomat/config/form"
	"tempomat/internal/testkit"
)

// FuzzParse: whatever the file contains, Parse returns either faults, each for one line of the file, or a
// configuration. The configuration can be described, doesn't differ from itself, and stays the same if the
// environment sets the same values.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		for _, file := range configurations(f, folder) {
			f.Add([]byte(testkit.ReadFile(f, file)))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "f", nil)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 || c != nil {
				t.Fatalf("got %v, %v", c, err)
			}
			for _, fault := range faults {
				if strings.ContainsAny(fault.Error(), "\n\r") || fault.Problem == "" {
					t.Errorf("not one line: %q", fault.Error())
				}
			}
			return
		}
		checkConfig(t, c)
	})
}

func checkConfig(t *testing.T, c *Config) {
	t.Helper()
	var b strings.Builder
	c.Describe(&b, 2, true)
	if !strings.Contains(b.String(), "slash32") {
		t.Errorf("described as %q", b.String())
	}
	if changes := Changed(c, c); len(changes) != 0 {
		t.Errorf("differs from itself: %v", changes)
	}
	if len(c.Classes) == 0 || len(c.Classes) > maxClasses || len(c.Listen) == 0 {
		t.Errorf("%d classes, %d addresses", len(c.Classes), len(c.Listen))
	}
	// Printed values are valid as variables.
	var env []string
	d := newDraft(c)
	for _, s := range canonical(d) {
		if s.HasVariable() {
			env = append(env, form.Variable(s.Path)+"="+s.Value.Text())
		}
	}
	again, err := Parse(nil, "", env)
	if err != nil {
		t.Fatalf("its own values are rejected: %v", err)
	}
	again.Classes, again.Exempt, again.Limits, again.Warnings = c.Classes, c.Exempt, c.Limits, c.Warnings
	again.Robots.Known, again.Sites = c.Robots.Known, c.Sites
	again.Coordination.Smockron.Domains = c.Coordination.Smockron.Domains
	testkit.Same(t, c, again, "the result of its own values")
}
