package config

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"

	"tempomat/config/form"
)

// mostDifferences is how many keys Summary names that differ from their defaults.
const mostDifferences = 12

// Summary prints in about ten lines what matters most: what listens, what is behind it,
// what happens to requests, and which keys differ from their defaults. cpus is as in
// Describe, which tells all.
func (c *Config) Summary(w io.Writer, cpus float64) {
	d := newDraft(c)
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "listens on\t%s\n", listeners().In(&c.Listen).Text())
	fmt.Fprintf(out, "backend\t%s\n", c.Backend.URL)
	fmt.Fprintf(out, "mode\t%s\n", c.modeInWords())
	fmt.Fprintf(out, "CPUs\t%s\n", c.cpusInWords(cpus))
	fmt.Fprintf(out, "a client\t%s\n", limits(d.class("slash32"), cpus))
	fmt.Fprintf(out, "admin API\t%s\n", cmp.Or(c.Admin.Listen, "off"))
	_ = out.Flush() // whoever needs w's errors keeps them in w
	differing := c.differing()
	if len(differing) == 0 {
		fmt.Fprintln(w, "all other keys have their defaults")
	} else {
		fmt.Fprintln(w, "other than by default")
	}
	for i, change := range differing {
		if i == mostDifferences {
			fmt.Fprintf(out, "  and %d more\n", len(differing)-i)
			break
		}
		fmt.Fprintf(out, "  %s\t%s\t(default: %s)\n", change.Key, shortly(change.New), shortly(change.Old))
	}
	_ = out.Flush()
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// differing are the keys that differ from their defaults, but for those of which
// Summary has a line.
func (c *Config) differing() (changes []Change) {
	for _, change := range Changed(Default(), c) {
		switch change.Key {
		case "listen", "backend.url", "throttle.mode", "throttle.shadow", "cpuCount", "admin.listen":
		default:
			changes = append(changes, change)
		}
	}
	return changes
}

// shortly is a value in at most a line.
func shortly(value string) string {
	if value == "" {
		return "none"
	}
	return form.Quoted(value)
}

func (c *Config) modeInWords() string {
	words := c.Throttle.Mode
	if c.Throttle.DelaysNobody() {
		words += ", delays nobody"
	}
	if c.Throttle.Shadow {
		words += " (throttle.shadow)"
	}
	return words
}

func (c *Config) cpusInWords(cpus float64) string {
	words := rounded(cpus)
	if c.CPUCount == 0 {
		words += ", as many as this machine has"
	}
	return words
}
