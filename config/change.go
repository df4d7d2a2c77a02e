package config

import (
	"slices"

	"tempomat/config/form"
)

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
	for _, b := range before.classes {
		a := after.class(b.Name)
		if a == nil {
			a = &draftClass{Class: Class{Name: b.Name}, own: b.own, off: true}
		}
		changes = append(changes, classChanges(b, a)...)
	}
	for _, a := range after.classes {
		if before.class(a.Name) == nil {
			changes = append(changes, classChanges(&draftClass{Class: Class{Name: a.Name}, own: a.own, off: true}, a)...)
		}
	}
	return append(changes, fileChanges(old, new)...)
}

// classChanges compares one class: as a whole where it comes or goes.
func classChanges(before, after *draftClass) []Change {
	if before.off || after.off {
		if before.off && after.off {
			return nil
		}
		return []Change{{
			Key: classPath(before.Name),
			Old: describeClass(before.Class, before.off),
			New: describeClass(after.Class, after.off),
		}}
	}
	// without the class's own path, which repeats the others
	keys := func(c *draftClass) (table []form.Setting) {
		for _, s := range classSettings(c) {
			if s.Path != classPath(c.Name) {
				table = append(table, s)
			}
		}
		return table
	}
	return differences(keys(before), keys(after))
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
