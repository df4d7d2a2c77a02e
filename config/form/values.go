package form

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Scalar reads and prints values that are written as a single string.
type Scalar[T any] struct {
	// Parse reads the string. Its error says which values are allowed. In a message, the error follows the key and
	// the value.
	Parse func(text string) (T, error)
	// Format prints the value as Parse reads it.
	Format func(T) string
}

// In returns a Value that reads into p.
func (s Scalar[T]) In(p *T) Value { return scalarIn[T]{s, p} }

// But adds a check to Parse, and replaces all errors with the same message.
func (s Scalar[T]) But(problem string, valid func(x T) bool) Scalar[T] {
	parse := s.Parse
	s.Parse = func(text string) (T, error) {
		x, err := parse(text)
		if err != nil || !valid(x) {
			err = errors.New(problem)
		}
		return x, err
	}
	return s
}

type scalarIn[T any] struct {
	Scalar[T]
	p *T
}

func (s scalarIn[T]) Text() string { return s.Format(*s.p) }

func (s scalarIn[T]) Read(r *Reader, at Source, n *yaml.Node) {
	readText(r, at, n, func(text string) error {
		x, err := s.Parse(text)
		if err == nil {
			*s.p = x
		}
		return err
	})
}

// readText passes the text of a single value to set.
func readText(r *Reader, at Source, n *yaml.Node, set func(text string) error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.Fault(at, "", "must be a single value, not "+KindName(n))
	case IsNull(n):
		r.Fault(at, "", "has no value; leave the key out to use its default")
	default:
		if err := set(n.Value); err != nil {
			r.Fault(at, Quoted(n.Value), err.Error())
		}
	}
}

// Text reads strings, and stores what parse returns.
func Text(parse func(text string) (string, error)) Scalar[string] {
	return Scalar[string]{Parse: parse, Format: func(text string) string { return text }}
}

// Checked reads strings and stores them unchanged.
func Checked(check func(text string) error) Scalar[string] {
	return Text(func(text string) (string, error) { return text, check(text) })
}

// Simple reads strings, with the same message for all errors.
func Simple(problem string, read func(text string) (kept string, ok bool)) Scalar[string] {
	return Text(func(text string) (string, error) {
		kept, ok := read(text)
		if !ok {
			return "", errors.New(problem)
		}
		return kept, nil
	})
}

// OrOff accepts the given words, in any case, as an empty string. Format prints the first of them. An empty
// string itself is accepted only if "" is among the words.
func OrOff(s Scalar[string], words ...string) Scalar[string] {
	s.Format = func(text string) string { return cmp.Or(text, words[0]) }
	return orNothing(s, words[0], words)
}

// OrEmpty also accepts an empty string.
func OrEmpty(s Scalar[string]) Scalar[string] {
	return orNothing(s, "empty", []string{""})
}

// orNothing accepts the given words as an empty string. name is the name for them in messages.
func orNothing(s Scalar[string], name string, words []string) Scalar[string] {
	parse := s.Parse
	s.Parse = func(text string) (string, error) {
		if slices.ContainsFunc(words, sameWord(text)) {
			return "", nil
		}
		x, err := parse(text)
		if err != nil {
			err = fmt.Errorf("%w, or %s", err, name)
		}
		return x, err
	}
	return s
}

// Choice accepts one of the words, in any case.
func Choice(words ...string) Scalar[string] {
	return Scalar[string]{
		Parse: func(text string) (string, error) {
			if i := slices.IndexFunc(words, sameWord(text)); i >= 0 {
				return words[i], nil
			}
			return "", fmt.Errorf("must be %s", listed("or", words))
		},
		Format: func(word string) string { return word },
	}
}

// sameWord returns a function that reports whether a word equals text in any case.
func sameWord(text string) func(word string) bool {
	return func(word string) bool { return strings.EqualFold(word, text) }
}

// Duration accepts Go's syntax. It rejects a number without a unit, even 0, because the unit could be seconds
// or milliseconds.
func Duration(least, most time.Duration) Scalar[time.Duration] {
	return Scalar[time.Duration]{
		Parse: func(text string) (time.Duration, error) {
			if _, err := parseNumber(text); err == nil {
				return 0, fmt.Errorf("has no unit; write, for example, %ss or %sms", text, text)
			}
			d, err := time.ParseDuration(text)
			if err != nil || d < least || d > most {
				return 0, fmt.Errorf("must be a duration from %s to %s", FormatDuration(least), FormatDuration(most))
			}
			return d, nil
		},
		Format: FormatDuration,
	}
}

// FormatDuration prints a duration without the zero parts that Go adds: 2m instead of 2m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Boolean accepts true and false.
func Boolean() Scalar[bool] {
	return Scalar[bool]{
		Parse: func(text string) (bool, error) {
			switch strings.ToLower(text) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return false, errors.New("must be true or false")
		},
		Format: strconv.FormatBool,
	}
}

// Integer accepts whole numbers.
func Integer(least, most int) Scalar[int] {
	return Scalar[int]{
		Parse: func(text string) (int, error) {
			i, err := strconv.Atoi(text)
			if err != nil || i < least || i > most {
				return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
			}
			return i, nil
		},
		Format: strconv.Itoa,
	}
}

// Number accepts decimal numbers from least to most. The error is "must be " followed by allowed.
func Number(allowed string, least, most float64) Scalar[float64] {
	return Scalar[float64]{
		Parse: func(text string) (float64, error) {
			x, err := parseNumber(text)
			if err != nil || !(x >= least && x <= most) {
				return 0, errors.New("must be " + allowed)
			}
			return x + 0, nil // turns a negative zero into zero
		},
		Format: FormatNumber,
	}
}

// parseNumber accepts only decimal numbers. The other forms that Go accepts (hexadecimal, Inf, NaN) are
// probably mistakes in a configuration.
func parseNumber(text string) (float64, error) {
	if strings.Trim(text, "+-0123456789.eE") != "" {
		return 0, errors.New("not a number")
	}
	return strconv.ParseFloat(text, 64)
}

// FormatNumber prints a number as Number reads it.
func FormatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// sizeUnits returns the units of sizes, the largest first. They are powers of 1024, as in Apache, nginx and
// PHP.
func sizeUnits() []string { return []string{"TB", "GB", "MB", "KB", "B"} }

// Size accepts a number of bytes, such as 65536 or 64KB. most is the largest number allowed.
func Size(most int64) Scalar[int64] {
	return Scalar[int64]{
		Parse: func(text string) (int64, error) {
			n, ok := parseSize(text)
			if !ok || n > most {
				return 0, fmt.Errorf("must be a size from 0 to %s, in bytes or with KB, MB, GB or TB, such as 64KB", formatSize(most))
			}
			return n, nil
		},
		Format: formatSize,
	}
}

// parseSize parses a size in bytes.
func parseSize(text string) (int64, bool) {
	digits, unit := strings.ToUpper(text), int64(1)
	for i, name := range sizeUnits() {
		if before, ok := strings.CutSuffix(digits, name); ok {
			digits, unit = strings.TrimRight(before, " "), 1<<(10*(len(sizeUnits())-1-i))
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > (1<<63-1)/unit {
		return 0, false
	}
	return int64(n) * unit, true
}

// formatSize prints a size in the largest unit that leaves a whole number.
func formatSize(n int64) string {
	for i, name := range sizeUnits() {
		unit := int64(1) << (10 * (len(sizeUnits()) - 1 - i))
		if n >= unit && n%unit == 0 && unit > 1 {
			return strconv.FormatInt(n/unit, 10) + name
		}
	}
	return strconv.FormatInt(n, 10)
}

// List reads lists, written as a YAML list or as a string with commas.
type List[T any] struct {
	Of       Scalar[T]
	Most     int  // the most members
	Distinct bool // each member may occur only once
	// Mapping returns the keys of a member that is written as a mapping. The member is then formatted as a string,
	// and the string is checked. If Mapping is nil, mappings aren't allowed.
	Mapping func(*T) []Setting
}

// In returns a Value that reads into p.
func (l List[T]) In(p *[]T) Value { return listIn[T]{l, p} }

type listIn[T any] struct {
	List[T]
	p *[]T
}

func (l listIn[T]) Text() string {
	texts := make([]string, 0, len(*l.p))
	for _, x := range *l.p {
		texts = append(texts, l.Of.Format(x))
	}
	return strings.Join(texts, ", ")
}

func (l listIn[T]) add(text string) error {
	x, err := l.Of.Parse(text)
	if err != nil {
		return err
	}
	same := func(other T) bool { return l.Of.Format(other) == l.Of.Format(x) }
	if l.Distinct && slices.ContainsFunc(*l.p, same) {
		return errors.New("is given twice")
	}
	*l.p = append(*l.p, x)
	return nil
}

func (l listIn[T]) Read(r *Reader, at Source, n *yaml.Node) {
	*l.p = nil
	if n.Kind == yaml.MappingNode && l.Mapping != nil {
		l.readMapping(r, at, n)
		return
	}
	if n.Kind == yaml.SequenceNode {
		if len(n.Content) > l.Most {
			r.Fault(at, "", tooMany(len(n.Content), l.Most))
			return
		}
		for i, member := range n.Content {
			here := at.Item(i).On(member)
			if member.Kind == yaml.MappingNode && l.Mapping != nil {
				l.readMapping(r, here, member)
				continue
			}
			readText(r, here, member, l.add)
		}
		return
	}
	readText(r, at, n, func(text string) error {
		parts := strings.Split(text, ",")
		if len(parts) > l.Most {
			return errors.New(tooMany(len(parts), l.Most))
		}
		for _, part := range parts {
			if part = strings.TrimSpace(part); part == "" {
				continue
			}
			if err := l.add(part); err != nil {
				r.Fault(at, Quoted(part), err.Error())
			}
		}
		return nil
	})
}

// readMapping reads a member that is written as a mapping.
func (l listIn[T]) readMapping(r *Reader, at Source, n *yaml.Node) {
	var x T
	if r.Member(at, n, l.Mapping(&x)) {
		if err := l.add(l.Of.Format(x)); err != nil {
			r.Fault(at, "", err.Error())
		}
	}
}

func tooMany(n, most int) string {
	return fmt.Sprintf("has %d members; at most %d are allowed", n, most)
}

// Members reads lists whose members are mappings.
type Members[T any] struct {
	Most    int                  // the most members
	Example string               // an example for messages
	Needs   string               // the keys that a member must have, for messages
	New     func() T             // returns a member with the defaults
	Keys    func(*T) []Setting   // returns the keys of a member
	Check   func(*T, []T) string // compares a member whose keys are valid with the members before it; returns an error text or ""; may be nil
}

// In returns a Value that reads into p.
func (m Members[T]) In(p *[]T) Value { return membersIn[T]{m, p} }

type membersIn[T any] struct {
	Members[T]
	p *[]T
}

func (m membersIn[T]) Text() string {
	texts := make([]string, 0, len(*m.p))
	for _, x := range *m.p {
		plain := m.New()
		texts = append(texts, Said(m.Keys(&x), m.Keys(&plain)))
	}
	return strings.Join(texts, "; ")
}

// Said returns, in one line, the keys whose values differ from those of a member with only defaults. For required
// keys, it returns only the values.
func Said(keys, plain []Setting) string {
	var parts []string
	for i, s := range keys {
		if s.AliasOf != "" || s.Went() || s.Value.Text() == plain[i].Value.Text() {
			continue
		}
		switch text := s.Value.Text(); {
		case s.Required:
			parts = append(parts, text)
		case text == "true":
			parts = append(parts, s.Path)
		default:
			parts = append(parts, s.Path+" "+text)
		}
	}
	return strings.Join(parts, ", ")
}

func (m membersIn[T]) Read(r *Reader, at Source, n *yaml.Node) {
	*m.p = nil
	switch {
	case IsNull(n):
		return
	case n.Kind != yaml.SequenceNode:
		r.Fault(at, QuotedNode(n), "must be a list such as "+m.Example)
		return
	case len(n.Content) > m.Most:
		r.Fault(at, "", tooMany(len(n.Content), m.Most))
		return
	}
	for i, item := range n.Content {
		here := at.Item(i).On(item)
		r.Given[here.Key] = here
		if item.Kind != yaml.MappingNode {
			r.Fault(here, QuotedNode(item), "must be a mapping with "+m.Needs)
			*m.p = append(*m.p, m.New()) // keeps the indices of the other members
			continue
		}
		x := m.New()
		if r.Member(here, item, m.Keys(&x)) && m.Check != nil {
			if problem := m.Check(&x, *m.p); problem != "" {
				r.Fault(here, "", problem)
			}
		}
		*m.p = append(*m.p, x)
	}
}
