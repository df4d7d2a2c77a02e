package config

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/config/form"
)

// FuzzParse: whatever the file holds, there are either faults, each on one line
// of the file, or a configuration that can be described, does not differ from
// itself, and is the same again when the environment gives its own values.
func FuzzParse(f *testing.F) {
	for _, folder := range []string{"good", "bad"} {
		for _, file := range configurations(f, folder) {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
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
	// what is shown can be given back
	var env []string
	d := newDraft(c)
	for _, s := range canonical(d) {
		if s.HasVariable() {
			env = append(env, form.Variable(s.Path)+"="+s.Value.Text())
		}
	}
	again, err := Parse(nil, "", env)
	if err != nil {
		t.Fatalf("its own values are refused: %v", err)
	}
	again.Classes, again.Exempt, again.Limits, again.Warnings = c.Classes, c.Exempt, c.Limits, c.Warnings
	again.Robots.Known, again.Sites = c.Robots.Known, c.Sites
	again.Coordination.Smockron.Domains = c.Coordination.Smockron.Domains
	if diff := cmp.Diff(c, again, cmpPrefix); diff != "" {
		t.Errorf("not the same again:\n%s", diff)
	}
}
