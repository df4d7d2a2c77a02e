package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// reader reads a tree into settings, and notes every fault and goes on.
type reader struct {
	faults Faults
	given  map[string]source // dotted paths that were given, and where
}

// environment is the file name of what the environment gives.
const environment = "environment"

// source is where something was given: a key in a line, or a variable.
type source struct {
	file string
	line int
	key  string // dotted path, or the variable's name
}

// on is the same key at n's line.
func (s source) on(n *yaml.Node) source {
	if n.Line > 0 {
		s.line = n.Line
	}
	return s
}

// under is a key inside this one.
func (s source) under(key string) source {
	if s.key != "" {
		key = s.key + "." + key
	}
	s.key = key
	return s
}

// item is the i-th member of this list.
func (s source) item(i int) source {
	s.key += "[" + strconv.Itoa(i) + "]"
	return s
}

// fault notes one. value is already made fit for printing by shown.
func (r *reader) fault(at source, value, problem string) {
	key := at.key
	if key != "" {
		key = shown(key)
	}
	r.faults = append(r.faults, Fault{File: at.file, Line: at.line, Key: key, Value: value, Problem: problem})
}

// mapping reads each key of n by the setting at its path. prefix is the path of
// n, with a dot at its end, or empty at the top.
func (r *reader) mapping(at source, n *yaml.Node, prefix string, table []setting) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		here := at.under(key.Value).on(key)
		inside := inside(table, path+".")
		s, isSetting := find(table, path)
		switch {
		case value.Kind == yaml.MappingNode && len(inside) > 0:
			r.mapping(here, value, path+".", table)
		case isSetting:
			r.given[path] = here
			s.value.read(r, here.on(value), value)
		case len(inside) > 0 && isNull(value):
			// a section whose keys are all commented out
		case len(inside) > 0:
			r.fault(here, shownNode(value), "must be a mapping with "+keyNames(inside))
		default:
			r.unknown(here, key.Value, prefix, table)
		}
	}
}

// unknown notes a key that does not exist, with the one that may be meant.
func (r *reader) unknown(at source, key, prefix string, table []setting) {
	problem := "unknown key"
	if len(r.faults) < maxFaults {
		if meant := meant(key, prefix, table); meant != "" {
			problem += fmt.Sprintf("; did you mean %q?", meant)
		}
	}
	r.fault(at, "", problem)
}

// meant is the key of this mapping that is most like key, or the path of one
// that has its name elsewhere.
func meant(key, prefix string, table []setting) string {
	if name := nearest(key, inside(table, prefix)); name != "" {
		return name
	}
	for _, s := range table {
		if last := s.path[strings.LastIndexByte(s.path, '.')+1:]; strings.EqualFold(last, key) {
			return s.path
		}
	}
	return ""
}

// refuseTwice notes what the file gives in two forms, such as slash32Share and
// classes.slash32.share.
func (r *reader) refuseTwice(table []setting) {
	for _, s := range table {
		at, given := r.given[s.path]
		if s.same == "" || !given {
			continue
		}
		if other, twice := r.given[s.same]; twice {
			r.fault(at, "", fmt.Sprintf("%s in line %d sets the same; keep one of the two", other.key, other.line))
		}
	}
}

// warnings tell what was given and has no effect any more.
func (r *reader) warnings(table []setting) (lines []string) {
	for _, s := range table {
		if at, given := r.given[s.path]; given && s.gone != "" {
			fault := Fault{File: at.file, Line: at.line, Key: at.key, Problem: "has no effect any more; " + s.gone}
			lines = append(lines, fault.Error())
		}
	}
	return lines
}

// inside are the names of the keys directly under a prefix, each once.
func inside(table []setting, prefix string) []string {
	var names []string
	for _, s := range table {
		rest, ok := strings.CutPrefix(s.path, prefix)
		name, _, _ := strings.Cut(rest, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func find(table []setting, path string) (setting, bool) {
	i := slices.IndexFunc(table, func(s setting) bool { return s.path == path })
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	}
	return "a single value"
}

// shownNode is a single value fit for a message; empty for anything larger.
func shownNode(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return shown(n.Value)
}

func keyNames(names []string) string {
	if len(names) == 1 {
		return "the key " + names[0]
	}
	return "the keys " + list("and", names)
}

// list is words as a sentence has them: a, b and c.
func list(last string, words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " " + last + " " + words[end]
}
