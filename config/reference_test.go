package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"tempomat/classify"
	"tempomat/config/form"
	"tempomat/internal/testkit"
)

// referenceEntry matches a key's entry in docs/configuration.md: its name, its text and its last line, which
// contains the allowed values and the default.
var referenceEntry = regexp.MustCompile("(?m)^#### `(.+)`\n\n(.+)\n\n(.+)$")

// documented returns the keys in the order of the reference.
func documented() (table []form.Setting) {
	inLists := map[string][]form.Setting{
		"listen":                        listenerSettings(new(Listener)),
		"tls.certificates":              certificates().Mapping(new(CertificateFiles)),
		"exempt":                        exemptSettings(new(Exemption)),
		"robots.known":                  robotSettings(new(Robot)),
		"limits":                        limitSettings(&Limit{Class: "slash32"}),
		"coordination.smockron.domains": smockronDomainSettings(new(newSmockronDomain())),
	}
	inMappings := map[string][]form.Setting{
		"classes": classMembers(&draftClass{Class: Class{Burst: -1}, own: true}),
		"sites":   siteSettings(newSite("a")),
	}
	for _, s := range form.Own(settings(newDraft(Default()))) {
		if s.Legacy {
			continue
		}
		table = append(table, s)
		members, between := inLists[s.Path], "[]."
		if members == nil {
			members, between = inMappings[s.Path], ".NAME."
		}
		for _, m := range form.Own(members) {
			m.Path, m.Restart = s.Path+between+m.Path, s.Restart
			table = append(table, m)
		}
	}
	return table
}

// TestManualHoldsEveryKey: each key has an entry with its default, in the order of the tables. The entry says whether
// a change of the key needs a restart. The limits in the entry are themselves allowed values.
func TestManualHoldsEveryKey(t *testing.T) {
	manual := testkit.ReadFile(t, "../docs/configuration.md")
	var got, want []string
	facts := make(map[string]string)
	for _, e := range referenceEntry.FindAllStringSubmatch(manual, -1) {
		got = append(got, e[1])
		facts[e[1]] = e[3]
		if !strings.HasSuffix(strings.TrimSuffix(e[2], ")"), ".") {
			t.Errorf("%s: %q isn't a sentence", e[1], e[2])
		}
	}
	table := documented()
	for _, s := range table {
		want = append(want, s.Path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the keys of the tables (-) and of the manual (+):\n%s", diff)
	}
	for _, s := range legacySettings(newDraft(Default())) {
		if row := fmt.Sprintf("\n| `%s` | `%s`", s.Path, s.AliasOf); !strings.Contains(manual, row) {
			t.Errorf("no row %q", row)
		}
	}
	bounds := regexp.MustCompile("`?([0-9.]+[A-Za-z]*)`? to `?([0-9.]+[A-Za-z]*)`?")
	for _, s := range table {
		line, path := facts[s.Path], s.Path
		if strings.HasSuffix(line, "; **restart**") != s.Restart {
			t.Errorf("%s: %q, and restart is %t", path, line, s.Restart)
		}
		if strings.Contains(line, "; required") != s.Required && !strings.Contains(line, "; default ") {
			t.Errorf("%s: %q, and required is %t", path, line, s.Required)
		}
		text := s.Value.Text()
		inWords := slices.Contains([]string{"", "0", "-1ns", "invalid Prefix"}, text) // or the default is in the table of classes
		if !s.Nested && !s.Required && !inWords && !strings.Contains(line, "; default `"+text+"`") {
			t.Errorf("%s: %q, and the default is %q", path, line, text)
		}
		if b := bounds.FindStringSubmatch(line); b != nil && !s.Nested {
			for _, bound := range b[1:] {
				r := form.NewReader()
				s.Value.Read(r, form.Source{}, &yaml.Node{Kind: yaml.ScalarNode, Value: bound})
				if len(r.Faults) > 0 {
					t.Errorf("%s: %q, and %v", path, line, r.Faults)
				}
			}
		}
	}
}

// TestManualHoldsEveryBuiltInClass: the manual contains every built-in class with its share and its burst.
func TestManualHoldsEveryBuiltInClass(t *testing.T) {
	manual := testkit.ReadFile(t, "../docs/configuration.md")
	lines := strings.Split(manual, "\n")
	for _, k := range classify.Kinds() {
		share, burst := "off", form.FormatDuration(defaultBurst)
		if k.Usual {
			share, burst = "`"+form.FormatNumber(k.Share)+"`", form.FormatDuration(k.Burst)
		}
		begin, end := fmt.Sprintf("| `%s` | ", k.Name), fmt.Sprintf(" | %s | `%s` |", share, burst)
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, begin) && strings.HasSuffix(l, end) }) {
			t.Errorf("no row %s…%s", begin, end)
		}
	}
}
