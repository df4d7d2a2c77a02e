// Package form reads a configuration file in YAML or JSON, and environment variables that override it. A table
// of settings contains the path of each key, the field that the key sets, and the allowed values. All faults are
// reported at once, each with its file, line, key and value.
//
// The keys of tempomat are in package config, not in this one.
package form

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// Setting is a key of the configuration.
type Setting struct {
	Path     string // with dots, such as throttle.maxHold
	Value    Value
	Zero     string // the meaning of 0; empty if 0 is an ordinary number
	Required bool   // a member of a list must have this key
	Nested   bool   // a mapping, or a list of mappings, which no variable can hold
	Restart  bool   // a change takes effect only after a restart
	AliasOf  string // the path of the setting for which this one is another name
	Legacy   bool   // a key of the original's file, for which there is no variable
	Gone     string // what to write instead of a key that no longer has an effect; such a key has no Value
	Old      string // what to write instead of a key that still has an effect in this release
}

// Value reads and prints the value of a key.
type Value interface {
	// Read sets the value from a node, or adds a fault.
	Read(r *Reader, at Source, n *yaml.Node)
	// Text returns the value as it is written in a file. For scalars and lists, Read accepts the text.
	Text() string
}

// HasVariable reports whether an environment variable can set the key.
func (s Setting) HasVariable() bool { return !s.Legacy && !s.Nested }

// Went reports whether the key is accepted only because files for older releases contain it.
func (s Setting) Went() bool { return s.Gone != "" || s.Old != "" }

// Own returns the settings without aliases and without keys for which Went is true.
func Own(table []Setting) []Setting {
	return slices.DeleteFunc(slices.Clone(table), func(s Setting) bool { return s.AliasOf != "" || s.Went() })
}

// lastName returns the last part of a path.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// inside returns the names of the keys directly below a prefix, each once.
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
