// Package form reads a configuration file of YAML or JSON, and the environment over
// it, into settings: a table that has for each key its path, the field that it sets,
// what is allowed and what it means. It notes everything that is wrong, with file,
// line, key and value, instead of the first fault only. From the same table come the
// reference in Markdown and the JSON Schema.
//
// It knows no key of tempomat's: those are in package config.
package form

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Setting is one key of the configuration: its path and what it sets.
type Setting struct {
	Path     string // dotted: throttle.maxHold
	Value    Value
	Doc      string // what it means, in one or two sentences of Markdown
	Unit     string // what a number counts; empty: the value has its unit in it, or none
	Zero     string // what 0 stands for; empty: 0 is a number like the others
	Default  string // what it is if it is not given, as Markdown; empty: the value's text
	Required bool   // of a member: it must be given
	Restart  bool   // it cannot change while the program runs
	AliasOf  string // this is another form of the setting with that path
	Legacy   bool   // this is a key of the original's file, and has no variable
	Gone     string // what to write instead of a key that has no effect any more, and so no Value; empty: it has one
	Old      string // what to write instead of a key that has its effect still, for this release; empty: it stays
}

// Value is what one key sets.
type Value interface {
	// Read sets it from n, or notes a fault at that source.
	Read(r *Reader, at Source, n *yaml.Node)
	// Text is how it would be written; a scalar or a list reads it back as it is.
	Text() string
	// Spec is what it may be.
	Spec() Spec
}

// Spec is what a value may be, for the reference and for editors.
type Spec struct {
	Type       string    // in the reference: "duration"
	Allowed    string    // which ones, as Markdown; may be empty
	Schema     Schema    // the same as JSON Schema, as far as that can say it
	Table      string    // Markdown that stands below it in the reference; may be empty
	Nested     bool      // a mapping, or a list of mappings, which no variable can hold
	Members    []Setting // the keys of one member, if it may be a mapping
	MemberPath string    // what stands between the path and a member's key in the reference: "[]."
}

// HasVariable is true if a variable of the environment can set it.
func (s Setting) HasVariable() bool { return !s.Legacy && (s.Gone != "" || !s.Value.Spec().Nested) }

// Went reports whether the key is accepted for the sake of older files only.
func (s Setting) Went() bool { return s.Gone != "" || s.Old != "" }

// Own are the settings that each say something of their own: no second forms, and none
// that went.
func Own(table []Setting) []Setting {
	return slices.DeleteFunc(slices.Clone(table), func(s Setting) bool { return s.AliasOf != "" || s.Went() })
}

// lastName is the path's last part.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// inside are the names of the keys directly under a prefix, each once.
func inside(table []Setting, prefix string) []string {
	var names []string
	for _, s := range table {
		rest, ok := strings.CutPrefix(s.Path, prefix)
		name, _, _ := strings.Cut(rest, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func find(table []Setting, path string) (Setting, bool) {
	i := slices.IndexFunc(table, func(s Setting) bool { return s.Path == path })
	if i < 0 {
		return Setting{}, false
	}
	return table[i], true
}
