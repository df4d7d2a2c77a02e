package form

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// Reader reads a YAML tree into settings, and collects all faults.
type Reader struct {
	Faults Faults
	Given  map[string]Source // where keys were given, by their dotted paths

	// Warnings has a line for each key of the file that no longer exists or is deprecated.
	Warnings []string
}

// NewReader returns a Reader that hasn't read anything yet.
func NewReader() *Reader { return &Reader{Given: make(map[string]Source)} }

// Source is where a value comes from: a key in a line, or a variable.
type Source struct {
	File string
	Line int
	Key  string // the dotted path, or the variable's name
}

// On returns the same key at the line of a node.
func (s Source) On(n *yaml.Node) Source {
	if n.Line > 0 {
		s.Line = n.Line
	}
	return s
}

// Under returns a key inside this one.
func (s Source) Under(key string) Source {
	if s.Key != "" {
		key = s.Key + "." + key
	}
	s.Key = key
	return s
}

// Item returns the i-th member of this list.
func (s Source) Item(i int) Source {
	s.Key += "[" + strconv.Itoa(i) + "]"
	return s
}

// Fault adds a fault. value must be a result of Quoted or QuotedNode.
func (r *Reader) Fault(at Source, value, problem string) {
	key := at.Key
	if key != "" {
		key = Quoted(key)
	}
	r.Faults = append(r.Faults, Fault{File: at.File, Line: at.Line, Key: key, Value: value, Problem: problem})
}

// Faulty reports whether a key or one of its members already has a fault.
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

// Sorted returns the faults in the order that Faults defines, or nil if there are none.
func (r *Reader) Sorted() error {
	if len(r.Faults) == 0 {
		return nil
	}
	r.Faults.sort()
	return r.Faults
}

// Mapping reads each key of a mapping with the setting at its path. prefix is the path of the mapping followed by a
// dot, or empty for the top level.
func (r *Reader) Mapping(at Source, n *yaml.Node, prefix string, table []Setting) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		path := prefix + key.Value
		here := at.Under(key.Value).On(key)
		under := inside(table, path+".")
		s, isSetting := find(table, path)
		switch {
		case value.Kind == yaml.MappingNode && len(under) > 0:
			r.Mapping(here, value, path+".", table)
		case isSetting:
			if other, given := r.Given[path]; given && other.Key == here.Key { // once in its section, and once as a dotted key
				r.Fault(here, "", fmt.Sprintf("is given twice, first on line %d", other.Line))
				continue
			}
			r.Given[path] = here
			r.read(s, here.On(value), value)
		case len(under) > 0 && IsNull(value):
			// all keys of the section are commented out
		case len(under) > 0:
			r.Fault(here, QuotedNode(value), "must be a mapping with "+keyNames(inside(Own(table), path+".")))
		default:
			r.unknown(here, key.Value, prefix, table)
		}
	}
}

// Member reads a mapping that has a table of its own, and reports whether it is free of faults.
func (r *Reader) Member(at Source, n *yaml.Node, keys []Setting) bool {
	before, outside := len(r.Faults), r.Given
	r.Given = make(map[string]Source)
	defer func() { r.Given = outside }()
	r.Mapping(at, n, "", keys)
	for _, s := range keys {
		if _, given := r.Given[s.Path]; s.Required && !given {
			r.Fault(at, "", "has no "+s.Path)
		}
	}
	return len(r.Faults) == before
}

// mostNamed is the largest number of keys that a message lists.
const mostNamed = 10

// unknown reports a key that doesn't exist. It suggests a similar key, or lists the keys of the mapping if
// there are few.
func (r *Reader) unknown(at Source, key, prefix string, table []Setting) {
	problem := "unknown key"
	table = slices.DeleteFunc(slices.Clone(table), Setting.Went)
	if len(r.Faults) < maxFaults {
		if meant := meant(key, prefix, table); meant != "" {
			problem += fmt.Sprintf("; did you mean %q?", meant)
		} else if names := inside(table, prefix); len(names) > 0 && len(names) <= mostNamed {
			problem += "; allowed here: " + listed("and", names)
		}
	}
	r.Fault(at, "", problem)
}

// meant returns the most similar key of this mapping, or the path of a key with the same name in another
// section.
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

// RefuseTwice reports settings that the file contains in two forms, such as slash32Share and
// classes.slash32.share.
func (r *Reader) RefuseTwice(table []Setting) {
	for _, s := range table {
		at, given := r.Given[s.Path]
		if s.AliasOf == "" || !given {
			continue
		}
		if other, twice := r.Given[s.AliasOf]; twice {
			r.Fault(at, "", fmt.Sprintf("%s on line %d sets the same key; keep only one of them", other.Key, other.Line))
		}
	}
}

// read sets the value of a key. If the key no longer exists, read adds a warning that says what to write
// instead.
func (r *Reader) read(s Setting, at Source, n *yaml.Node) {
	if s.Gone != "" {
		r.Gone(at, s.Gone)
		return
	}
	if s.Old != "" {
		r.warn(at, "is deprecated; "+s.Old)
	}
	s.Value.Read(r, at, n)
}

// Gone warns that a key no longer has an effect, and says what to write instead.
func (r *Reader) Gone(at Source, instead string) { r.warn(at, "has no effect any more; "+instead) }

func (r *Reader) warn(at Source, problem string) {
	r.Warnings = append(r.Warnings, Fault{File: at.File, Line: at.Line, Key: at.Key, Problem: problem}.Error())
}

// Fault is one error in a configuration.
type Fault struct {
	File    string // the file's name, or "environment"
	Line    int    // the line, from 1; 0 if there is none, as for the environment
	Key     string // the dotted path, or the variable's name; empty: the whole file
	Value   string // the value, shortened for printing; may be empty
	Problem string // what is wrong with it and what is allowed
}

// Error returns the fault in one line: file:line: key: value: problem.
func (f Fault) Error() string {
	parts := make([]string, 0, 4)
	place := f.File
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	for _, part := range []string{place, f.Key, f.Value, f.Problem} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// environment replaces the file name in faults of environment variables.
const environment = "environment"

// Faults are all errors in a configuration: first those of the file in the order of its lines, then those of the
// environment.
type Faults []Fault

// maxFaults is the largest number of faults that Error prints. Otherwise a different kind of file could fill the
// log.
const maxFaults = 100

// Error returns one line for each fault, at most 100.
func (f Faults) Error() string {
	var b strings.Builder
	for i, fault := range f {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxFaults {
			fmt.Fprintf(&b, "and %d more", len(f)-i)
			break
		}
		b.WriteString(fault.Error())
	}
	return b.String()
}

func (f Faults) sort() {
	order := func(x Fault) (int, int) {
		if x.File == environment {
			return 1, x.Line
		}
		return 0, x.Line
	}
	slices.SortStableFunc(f, func(a, b Fault) int {
		aWhere, aLine := order(a)
		bWhere, bLine := order(b)
		return cmp.Or(cmp.Compare(aWhere, bWhere), cmp.Compare(aLine, bLine))
	})
}

// maxQuoted is the largest number of bytes of a value that a message repeats.
const maxQuoted = 80

// Quoted prepares a value for a message: it shortens the value, keeps it on one line, and hides the password
// of a URL, even if the URL has no scheme.
func Quoted(value string) string {
	_, rest, full := strings.Cut(value, "://")
	if !full {
		rest = value
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && (full || strings.Contains(rest[:at], ":")) {
		value = strings.TrimSuffix(value, rest) + "***" + rest[at:]
	}
	if len(value) > maxQuoted {
		value = strings.ToValidUTF8(value[:maxQuoted], "") + "…"
	}
	odd := func(c rune) bool { return !unicode.IsPrint(c) }
	if value == "" || strings.TrimSpace(value) != value || strings.ContainsFunc(value, odd) {
		return strconv.Quote(value)
	}
	return value
}

// maxSuggestKey is the longest unknown key for which Nearest looks for a known one.
const maxSuggestKey = 64

// Nearest returns the name that is most similar to a key, ignoring case, or an empty string if no name is
// similar enough.
func Nearest(key string, names []string) string {
	if len(key) > maxSuggestKey {
		return ""
	}
	best, bestDistance := "", 1+max(1, min(3, len(key)/3))
	for _, name := range names {
		d := distance(strings.ToLower(key), strings.ToLower(name))
		if d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// distance returns the Levenshtein distance: the smallest number of bytes to insert, remove or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// IsNull reports whether a value is missing, null or ~.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// KindName describes the kind of a node in words.
func KindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case IsNull(n):
		return "nothing"
	}
	return "a single value"
}

// QuotedNode returns a single value prepared for a message, or an empty string for a list or a mapping.
func QuotedNode(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return ""
	}
	return Quoted(n.Value)
}

func keyNames(names []string) string {
	if len(names) == 1 {
		return "the key " + names[0]
	}
	return "the keys " + listed("and", names)
}

// listed joins words as in a sentence, for example "a, b and c".
func listed(last string, words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " " + last + " " + words[end]
}
