package form

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Reader reads a tree into settings, and notes every fault and goes on.
type Reader struct {
	Faults Faults
	Given  map[string]Source // dotted paths that were given, and where
	gone   []string          // see Gone
}

// NewReader has read nothing yet.
func NewReader() *Reader { return &Reader{Given: make(map[string]Source)} }

// Source is where something was given: a key in a line, or a variable.
type Source struct {
	File string
	Line int
	Key  string // dotted path, or the variable's name
}

// On is the same key at n's line.
func (s Source) On(n *yaml.Node) Source {
	if n.Line > 0 {
		s.Line = n.Line
	}
	return s
}

// Under is a key inside this one.
func (s Source) Under(key string) Source {
	if s.Key != "" {
		key = s.Key + "." + key
	}
	s.Key = key
	return s
}

// Item is the i-th member of this list.
func (s Source) Item(i int) Source {
	s.Key += "[" + strconv.Itoa(i) + "]"
	return s
}

// Fault notes one. value is already made fit for printing by Quoted.
func (r *Reader) Fault(at Source, value, problem string) {
	key := at.Key
	if key != "" {
		key = Quoted(key)
	}
	r.Faults = append(r.Faults, Fault{File: at.File, Line: at.Line, Key: key, Value: value, Problem: problem})
}

// Faulty is true if a fault of that key or of a member of it is known already.
func (r *Reader) Faulty(path string) bool {
	at, given := r.Given[path]
	if !given {
		return false
	}
	for _, f := range r.Faults {
		if f.File == at.File && strings.HasPrefix(f.Key, at.Key) {
			return true
		}
	}
	return false
}

// Sorted are the faults in the order of Faults; nil if there are none.
func (r *Reader) Sorted() error {
	if len(r.Faults) == 0 {
		return nil
	}
	r.Faults.sort()
	return r.Faults
}

// Mapping reads each key of n by the setting at its path. prefix is the path of
// n, with a dot at its end, or empty at the top.
func (r *Reader) Mapping(at Source, n *yaml.Node, prefix string, table []Setting) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		here := at.Under(key.Value).On(key)
		inside := inside(table, path+".")
		s, isSetting := find(table, path)
		switch {
		case value.Kind == yaml.MappingNode && len(inside) > 0:
			r.Mapping(here, value, path+".", table)
		case isSetting:
			if other, given := r.Given[path]; given && other.Key == here.Key { // in a section, and dotted beside it
				r.Fault(here, "", fmt.Sprintf("is given twice, first in line %d", other.Line))
				continue
			}
			r.Given[path] = here
			s.Value.Read(r, here.On(value), value)
		case len(inside) > 0 && IsNull(value):
			// a section whose keys are all commented out
		case len(inside) > 0:
			r.Fault(here, QuotedNode(value), "must be a mapping with "+keyNames(inside))
		default:
			r.unknown(here, key.Value, prefix, table)
		}
	}
}

// mostNamed is how many keys a mapping may have to be listed.
const mostNamed = 10

// unknown notes a key that does not exist, with the one that may be meant, or those of
// its mapping, if they are few.
func (r *Reader) unknown(at Source, key, prefix string, table []Setting) {
	problem := "unknown key"
	table = slices.DeleteFunc(slices.Clone(table), func(s Setting) bool { return s.Gone != "" })
	if len(r.Faults) < maxFaults {
		if meant := meant(key, prefix, table); meant != "" {
			problem += fmt.Sprintf("; did you mean %q?", meant)
		} else if names := inside(table, prefix); len(names) > 0 && len(names) <= mostNamed {
			problem += "; there " + isOrAre(names) + " " + keyNames(names)
		}
	}
	r.Fault(at, "", problem)
}

// meant is the key of this mapping that is most like key, or the path of one
// that has its name elsewhere.
func meant(key, prefix string, table []Setting) string {
	if name := Nearest(key, inside(table, prefix)); name != "" {
		return name
	}
	for _, s := range table {
		if strings.EqualFold(lastName(s.Path), key) {
			return s.Path
		}
	}
	return ""
}

// RefuseTwice notes what the file gives in two forms, such as slash32Share and
// classes.slash32.share.
func (r *Reader) RefuseTwice(table []Setting) {
	for _, s := range table {
		at, given := r.Given[s.Path]
		if s.AliasOf == "" || !given {
			continue
		}
		if other, twice := r.Given[s.AliasOf]; twice {
			r.Fault(at, "", fmt.Sprintf("%s in line %d sets the same; keep one of the two", other.Key, other.Line))
		}
	}
}

// Gone notes that what was given there has no effect any more. What to write instead ends the line.
func (r *Reader) Gone(at Source, instead string) {
	fault := Fault{File: at.File, Line: at.Line, Key: at.Key, Problem: "has no effect any more; " + instead}
	r.gone = append(r.gone, fault.Error())
}

// Warnings tell what was given and has no effect any more.
func (r *Reader) Warnings(table []Setting) []string {
	for _, s := range table {
		if at, given := r.Given[s.Path]; given && s.Gone != "" {
			r.Gone(at, s.Gone)
		}
	}
	return r.gone
}
