package config

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"tempomat/config/form"
)

// mostDifferences is the most changed keys that Describe prints, unless it prints all keys.
const mostDifferences = 12

// Describe prints the current configuration: either every key, or the most important keys and those that differ
// from their defaults. Then it prints the limits for the keys of each class, and the warnings. cpus is the number
// of CPUs to which shares refer: CPUCount, or the number of CPUs of the machine if CPUCount is 0.
func (c *Config) Describe(w io.Writer, cpus float64, every bool) {
	d := newDraft(c)
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	always := []string{"listen", "backend.url", "throttle.mode", "cpuCount", "admin.listen"}
	for _, s := range canonical(d) {
		if every || slices.Contains(always, s.Path) {
			fmt.Fprintf(out, "%s\t%s\n", s.Path, inEffect(s, cpus))
		}
	}
	if !every {
		differing := slices.DeleteFunc(Changed(Default(), c), func(change Change) bool { return slices.Contains(always, change.Key) })
		for i, change := range differing {
			if i == mostDifferences {
				fmt.Fprintf(out, "and %d more keys\n", len(differing)-i)
				break
			}
			fmt.Fprintf(out, "%s\t%s\t(default: %s)\n", change.Key, form.Quoted(cmp.Or(change.New, "none")), form.Quoted(cmp.Or(change.Old, "none")))
		}
		if len(differing) == 0 {
			fmt.Fprintln(out, "all other keys have their defaults")
		}
	}
	_ = out.Flush() // callers that need write errors use a writer that stores them
	fmt.Fprintln(w, "\nshares")
	for _, class := range d.classes {
		if !class.isAbsent() {
			fmt.Fprintf(out, "  %s\t%s\n", class.Name, limits(class, cpus))
		}
	}
	_ = out.Flush()
	if len(c.Warnings) > 0 {
		fmt.Fprintln(w)
	}
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}

// inEffect returns the value of a setting, with an explanation if it is 0.
func inEffect(s form.Setting, cpus float64) string {
	text := s.Value.Text()
	switch {
	case text == "":
		return "none"
	case text != "0" || s.Zero == "":
		return text
	case s.Path == "cpuCount":
		return fmt.Sprintf("0 (%s: %s)", s.Zero, rounded(cpus))
	}
	return fmt.Sprintf("0 (%s)", s.Zero)
}

// limits describes the share of a key of a class.
func limits(c *draftClass, cpus float64) string {
	if c.off {
		return c.said()
	}
	_, more, _ := strings.Cut(c.said(), ", ") // everything after the share
	return fmt.Sprintf("%s CPU-s/s per key (share %s of %s CPUs), %s", rounded(c.Share*cpus), form.FormatNumber(c.Share), rounded(cpus), more)
}

// rounded removes rounding errors: 0.30000000000000004 becomes 0.3.
func rounded(x float64) string {
	if x != 0 {
		digits := math.Pow(10, 6-math.Ceil(math.Log10(math.Abs(x))))
		x = math.Round(x*digits) / digits
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// Change is a key that differs between two configurations.
type Change struct {
	Key          string // dotted path
	Old, New     string // as in a file; "off" for a class that doesn't exist
	NeedsRestart bool   // the new value takes effect only after a restart
}

// Reloaded returns the changes to report after a reload: those since the previous configuration that take effect
// now, and those since the program's start that need a restart. A change that needs a restart is therefore reported
// after each reload until the key has its first value again or the program is restarted.
func Reloaded(sinceBefore, sinceStart []Change) []Change {
	waits := func(c Change) bool { return c.NeedsRestart }
	taken := slices.DeleteFunc(slices.Clone(sinceBefore), waits)
	return append(taken, slices.DeleteFunc(slices.Clone(sinceStart), func(c Change) bool { return !waits(c) })...)
}

// Changed returns the keys whose values differ, in the order of the manual.
func Changed(old, new *Config) []Change {
	before, after := newDraft(old), newDraft(new)
	changes := differences(canonical(before), canonical(after))
	for _, c := range slices.Concat(before.classes, after.classes) {
		change := Change{Key: classPath(c.Name), Old: before.class(c.Name).said(), New: after.class(c.Name).said()}
		if change.Old != change.New && !slices.Contains(changes, change) {
			changes = append(changes, change)
		}
	}
	return changes
}

// differences compares two tables that have the same keys.
func differences(before, after []form.Setting) []Change {
	var changes []Change
	for i, b := range before {
		if oldText, newText := b.Value.Text(), after[i].Value.Text(); oldText != newText {
			changes = append(changes, Change{Key: b.Path, Old: oldText, New: newText, NeedsRestart: b.Restart})
		}
	}
	return changes
}
