package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"tempomat/classify"
	"tempomat/config/form"
)

// mostDifferences is how many keys that differ from their defaults Describe prints, unless it prints all.
const mostDifferences = 12

// Describe prints the configuration in effect: what matters most and the keys that differ from
// their defaults, or every key; then what each key of a class may use, and the warnings. cpus is
// the number of CPUs that shares are parts of: CPUCount, or what the machine has where that is 0.
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
	_ = out.Flush() // callers that need w's errors keep them in w
	fmt.Fprintln(w, "\nlimits")
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

// inEffect is a setting's value, and what a 0 stands for.
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

// limits is what a key of the class may use, in words.
func limits(c *draftClass, cpus float64) string {
	if c.off {
		return c.said()
	}
	_, more, _ := strings.Cut(c.said(), ", ") // behind the share
	return fmt.Sprintf("%s CPU-s/s per key (share %s of %s CPUs), %s", rounded(c.Share*cpus), form.FormatNumber(c.Share), rounded(cpus), more)
}

// rounded drops the noise of binary fractions: 0.30000000000000004 is 0.3.
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
	Old, New     string // as they would be written; "off" for a class that is not there
	NeedsRestart bool   // the running proxy cannot take the new value over
}

// Reloaded are the changes that a reload makes: of those since the configuration before it what the
// program can take over, and of those since its start what waits for a restart. A key that is
// put back to what the program began with waits no more, and one that waits is named each time.
func Reloaded(sinceBefore, sinceStart []Change) []Change {
	waits := func(c Change) bool { return c.NeedsRestart }
	taken := slices.DeleteFunc(slices.Clone(sinceBefore), waits)
	return append(taken, slices.DeleteFunc(slices.Clone(sinceStart), func(c Change) bool { return !waits(c) })...)
}

// Changed lists the keys that differ, in the order of the manual.
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

// differences compares two tables of the same keys.
func differences(before, after []form.Setting) []Change {
	var changes []Change
	for i, b := range before {
		if oldText, newText := b.Value.Text(), after[i].Value.Text(); oldText != newText {
			changes = append(changes, Change{Key: b.Path, Old: oldText, New: newText, NeedsRestart: b.Restart})
		}
	}
	return changes
}

// Reference writes the reference of all keys as Markdown, from the table that reads them.
func Reference(w io.Writer) {
	fmt.Fprint(w, `## Reference

Below each key: what is allowed, and its default. Changes take effect with a reload, those of keys marked **restart** with a restart.
A key after [] belongs to a member of a list; NAME is a class or site.
`)
	for _, c := range chapters(newDraft(Default())) {
		fmt.Fprintf(w, "\n### %s\n", c.title)
		if c.keys[0].Legacy {
			form.WriteLegacy(w, c.keys)
		} else {
			form.WriteReference(w, c.keys)
		}
	}
}

// Schema writes the JSON Schema (draft 2020-12) of a configuration file. It refuses what can be told of
// keys, words and numbers alone, and takes everything that Parse takes.
func Schema(w io.Writer) error {
	schema := form.MappingSchema(settings(newDraft(Default())))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "configuration of tempomat-proxy"
	schema["type"] = []string{"object", "null"}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(schema)
}

// builtInTable are the built-in classes as a table of Markdown.
func builtInTable() string {
	var b strings.Builder
	b.WriteString("| built-in class | groups by | share | burst |\n|---|---|---|---|\n")
	for _, k := range classify.Kinds() {
		share, burst := "off", form.FormatDuration(defaultBurst)
		if k.Usual {
			share, burst = "`"+form.FormatNumber(k.Share)+"`", form.FormatDuration(k.Burst)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", k.Name, k.Groups, share, burst)
	}
	return b.String()
}
