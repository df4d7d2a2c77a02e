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

// Reader reads a tree into settings, and notes every fault and goes on.
type Reader struct {
	Faults Faults
	Given  map[string]Source // dotted paths that were given, and where

	// Warnings name each key of the file that no longer exists.
	Warnings []string
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
			if other, given := r.Given[path]; given && other.Key == here.Key { // in a section, and dotted next to it
				r.Fault(here, "", fmt.Sprintf("is given twice, first in line %d", other.Line))
				continue
			}
			r.Given[path] = here
			r.read(s, here.On(value), value)
		case len(inside) > 0 && IsNull(value):
			// a section whose keys are all commented out
		case len(inside) > 0:
			r.Fault(here, QuotedNode(value), "must be a mapping with "+keyNames(inside))
		default:
			r.unknown(here, key.Value, prefix, table)
		}
	}
}

// Member reads a mapping of its own by its keys, and says whether nothing is wrong with it.
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

// mostNamed is how many keys a mapping may have to be listed.
const mostNamed = 10

// unknown notes a key that does not exist, with the one that may be meant, or those of
// its mapping, if they are few.
func (r *Reader) unknown(at Source, key, prefix string, table []Setting) {
	problem := "unknown key"
	table = slices.DeleteFunc(slices.Clone(table), Setting.Went)
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

// read sets what a key says, or tells what to write instead of it.
func (r *Reader) read(s Setting, at Source, n *yaml.Node) {
	if s.Gone != "" {
		r.Gone(at, s.Gone)
		return
	}
	if s.Old != "" {
		r.warn(at, "is the old way to write it; "+s.Old)
	}
	s.Value.Read(r, at, n)
}

// Gone notes that what was given there has no effect any more. What to write instead ends the line.
func (r *Reader) Gone(at Source, instead string) { r.warn(at, "has no effect any more; "+instead) }

func (r *Reader) warn(at Source, problem string) {
	r.Warnings = append(r.Warnings, Fault{File: at.File, Line: at.Line, Key: at.Key, Problem: problem}.Error())
}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File    string // the file's name, or "environment"
	Line    int    // the line, from 1; 0: none, as in the environment
	Key     string // the key as a dotted path, or the variable's name; empty: the file as a whole
	Value   string // what was given, shortened for printing; may be empty
	Problem string // what is wrong with it and what is allowed
}

// Error is the fault in one line: file:line: key: value: problem.
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

// environment is the file name of what the environment gives.
const environment = "environment"

// Faults is everything that is wrong with a configuration: those of the file
// in the order of its lines, then those of the environment.
type Faults []Fault

// maxFaults bounds what Error prints, so that a file of another kind does not
// fill the log.
const maxFaults = 100

// Error has one line per fault, at most 100 of them.
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

// maxQuoted is the longest piece of a value that a message repeats, in bytes.
const maxQuoted = 80

// Quoted is a value made fit for a message: short, on one line, and without the
// password of a URL, also where its scheme was left out.
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

// maxSuggestKey is the longest unknown key for which a known one is sought.
const maxSuggestKey = 64

// Nearest is the name that is most like key, ignoring case; empty if none is
// near enough to be meant.
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

// distance is Levenshtein's: the fewest bytes to insert, remove or replace.
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

// IsNull is true for a key without a value, and for null and ~.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// KindName names the kind of n.
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

// QuotedNode is a single value fit for a message; empty for anything larger.
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

func isOrAre(names []string) string {
	if len(names) == 1 {
		return "is"
	}
	return "are"
}

// listed are words as a sentence has them: a, b and c.
func listed(last string, words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " " + last + " " + words[end]
}
