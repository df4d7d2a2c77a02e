package form

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

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
