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

// Scalar is a kind of values that one piece of text holds.
type Scalar[T any] struct {
	Type    string // as in Spec
	Allowed string
	Schema  Schema
	// Parse reads the text. Its error says what is allowed, and follows the key and the
	// value in a message.
	Parse func(text string) (T, error)
	// Format writes it so that Parse reads it again.
	Format func(T) string
}

// In is the kind's value at p.
func (s Scalar[T]) In(p *T) Value { return scalarIn[T]{s, p} }

// But is the kind with a further check of what Parse has read, and one message for all that is wrong.
func (s Scalar[T]) But(problem string, sound func(x T) bool) Scalar[T] {
	parse := s.Parse
	s.Parse = func(text string) (T, error) {
		x, err := parse(text)
		if err != nil || !sound(x) {
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

func (s scalarIn[T]) Spec() Spec {
	return Spec{Type: s.Type, Allowed: s.Allowed, Schema: s.Schema}
}

func (s scalarIn[T]) Read(r *Reader, at Source, n *yaml.Node) {
	readText(r, at, n, func(text string) error {
		x, err := s.Parse(text)
		if err == nil {
			*s.p = x
		}
		return err
	})
}

// readText hands set the text of a single value.
func readText(r *Reader, at Source, n *yaml.Node, set func(text string) error) {
	switch {
	case n.Kind != yaml.ScalarNode:
		r.Fault(at, "", "must be a single value, not "+KindName(n))
	case IsNull(n):
		r.Fault(at, "", "has no value; leave the key out for its default")
	default:
		if err := set(n.Value); err != nil {
			r.Fault(at, Quoted(n.Value), err.Error())
		}
	}
}

// Text is a kind of texts, as parse keeps them.
func Text(allowed string, parse func(text string) (string, error)) Scalar[string] {
	return Scalar[string]{
		Allowed: allowed, Schema: Schema{"type": "string"},
		Parse: parse, Format: func(text string) string { return text },
	}
}

// Checked is a kind of texts that are kept as they are.
func Checked(allowed string, check func(text string) error) Scalar[string] {
	return Text(allowed, func(text string) (string, error) { return text, check(text) })
}

// Simple is a kind of texts of which all that is wrong with one is told in one way.
func Simple(allowed, problem string, read func(text string) (kept string, ok bool)) Scalar[string] {
	return Text(allowed, func(text string) (string, error) {
		kept, ok := read(text)
		if !ok {
			return "", errors.New(problem)
		}
		return kept, nil
	})
}

// OrOff also takes the words, in any case, for no text at all, which is written as the
// first of them. The word "" stands for an empty text.
func OrOff(s Scalar[string], words ...string) Scalar[string] {
	s.Allowed += ", or `" + words[0] + "`"
	s.Schema = AnyOf(oneOf(words), s.Schema)
	s.Format = func(text string) string { return cmp.Or(text, words[0]) }
	return orNothing(s, words[0], words)
}

// OrEmpty also takes an empty text.
func OrEmpty(s Scalar[string], means string) Scalar[string] {
	s.Allowed += ", or empty: " + means
	s.Schema = AnyOf(s.Schema, Schema{"const": ""})
	return orNothing(s, "empty", []string{""})
}

// orNothing has some words stand for no text, which a message calls by a name.
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

// oneOf is the schema of words in any case.
func oneOf(words []string) Schema {
	return AnyOf(Schema{"enum": words}, Schema{"type": "string", "pattern": anyCase(words...)})
}

// Choice takes one of the words, in any case.
func Choice(words ...string) Scalar[string] {
	return Scalar[string]{
		Allowed: "one of `" + strings.Join(words, "`, `") + "`",
		Schema:  oneOf(words),
		Parse: func(text string) (string, error) {
			if i := slices.IndexFunc(words, sameWord(text)); i >= 0 {
				return words[i], nil
			}
			return "", fmt.Errorf("must be %s", listed("or", words))
		},
		Format: func(word string) string { return word },
	}
}

// sameWord reports whether a word is text, in any case.
func sameWord(text string) func(word string) bool {
	return func(word string) bool { return strings.EqualFold(word, text) }
}

// Duration takes Go's syntax. A bare number is refused, even 0, because nobody
// can tell seconds from milliseconds.
func Duration(least, most time.Duration) Scalar[time.Duration] {
	return Scalar[time.Duration]{
		Allowed: fmt.Sprintf("`%s` to `%s`", FormatDuration(least), FormatDuration(most)),
		Schema:  Schema{"type": "string", "pattern": `^[+-]?([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+$`},
		Parse: func(text string) (time.Duration, error) {
			if _, err := parseNumber(text); err == nil {
				return 0, fmt.Errorf("has no unit; write for example %ss or %sms", text, text)
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				return 0, errors.New("must be a duration such as 30s, 1m30s or 250ms")
			}
			if d < least || d > most {
				return 0, fmt.Errorf("must be a duration from %s to %s", FormatDuration(least), FormatDuration(most))
			}
			return d, nil
		},
		Format: FormatDuration,
	}
}

// FormatDuration is a duration without the zero parts that Go prints: 2m, not 2m0s.
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

// Boolean is true or false.
func Boolean() Scalar[bool] {
	return Scalar[bool]{
		Type: "boolean", Schema: Schema{"type": []string{"boolean", "string"}, "pattern": anyCase("true", "false")},
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

// Integer is a whole number.
func Integer(least, most int) Scalar[int] {
	return Scalar[int]{
		Type: "whole number", Allowed: fmt.Sprintf("%d to %d", least, most),
		Schema: Schema{"type": []string{"integer", "string"}, "minimum": least, "maximum": most, "pattern": `^[+-]?[0-9]+$`},
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

// Number is a decimal number, at least so large and at most so large. The message of a fault is
// "must be " and then allowed.
func Number(allowed string, least, most float64) Scalar[float64] {
	return Scalar[float64]{
		Allowed: allowed,
		Schema:  Schema{"type": []string{"number", "string"}, "minimum": least, "maximum": most, "pattern": `^[-+0-9.eE]+$`},
		Parse: func(text string) (float64, error) {
			x, err := parseNumber(text)
			if err != nil || !(x >= least && x <= most) {
				return 0, errors.New("must be " + allowed)
			}
			return x + 0, nil // no negative zero
		},
		Format: FormatNumber,
	}
}

// parseNumber takes decimal numbers only: what else Go takes (hexadecimal, Inf,
// NaN) is a slip in a configuration.
func parseNumber(text string) (float64, error) {
	if strings.Trim(text, "+-0123456789.eE") != "" {
		return 0, errors.New("not a number")
	}
	return strconv.ParseFloat(text, 64)
}

// FormatNumber writes x as it is read again.
func FormatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// sizeUnits are what a size may end in, the largest first. They are powers of
// 1024, as Apache, nginx and PHP have them.
func sizeUnits() []string { return []string{"TB", "GB", "MB", "KB", "B"} }

// Size takes a number of bytes, at most so many: 65536, 64KB.
func Size(most int64) Scalar[int64] {
	return Scalar[int64]{
		Allowed: "`0` to `" + formatSize(most) + "`",
		Schema:  Schema{"type": []string{"integer", "string"}, "minimum": 0, "maximum": most, "pattern": `^[0-9]+( *[kKmMgGtT]?[bB])?$`},
		Parse: func(text string) (int64, error) {
			n, err := parseSize(text)
			if err == nil && n > most {
				err = fmt.Errorf("must be a size from 0 to %s", formatSize(most))
			}
			return n, err
		},
		Format: formatSize,
	}
}

// parseSize reads a size in bytes.
func parseSize(text string) (int64, error) {
	digits, unit := strings.ToUpper(text), int64(1)
	for i, name := range sizeUnits() {
		if before, ok := strings.CutSuffix(digits, name); ok {
			digits, unit = strings.TrimRight(before, " "), 1<<(10*(len(sizeUnits())-1-i))
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && int64(n) > (1<<63-1)/unit:
		return 0, errors.New("is too large for a size")
	case err != nil:
		return 0, errors.New("must be a size: a whole number of bytes, or of KB, MB, GB or TB, such as 64KB")
	}
	return int64(n) * unit, nil
}

// formatSize is a size in the largest unit that leaves a whole number.
func formatSize(n int64) string {
	for i, name := range sizeUnits() {
		unit := int64(1) << (10 * (len(sizeUnits()) - 1 - i))
		if n >= unit && n%unit == 0 && unit > 1 {
			return strconv.FormatInt(n/unit, 10) + name
		}
	}
	return strconv.FormatInt(n, 10)
}

// List is a kind of lists: a list of YAML, or one text with commas.
type List[T any] struct {
	Of       Scalar[T]
	Most     int  // members
	Distinct bool // none may be there twice
	// Mapping are the keys of a member that is written as a mapping; nil: none is. What it
	// says is read once more as text.
	Mapping func(*T) []Setting
}

// In is the kind's value at p.
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

func (l listIn[T]) Spec() Spec {
	allowed := fmt.Sprintf("at most %d", l.Most)
	if l.Of.Allowed != "" {
		allowed += "; each " + l.Of.Allowed
	}
	items, members := l.Of.Schema, []Setting(nil)
	if l.Mapping != nil {
		members = l.Mapping(new(T))
		items = AnyOf(items, MappingSchema(members))
	}
	return Spec{
		Type: "list", Allowed: allowed, Members: members, MemberPath: "[].",
		Schema: AnyOf(Schema{"type": "array", "maxItems": l.Most, "items": items}, Schema{"type": "string"}),
	}
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

// Members is a kind of lists whose members are mappings.
type Members[T any] struct {
	Most    int                  // members
	Least   int                  // keys of each
	Example string               // such a list, as a message has it
	Needs   string               // the keys that a member has to have, as a message has them
	New     func() T             // one of which nothing is given
	Keys    func(*T) []Setting   // its keys
	Check   func(*T, []T) string // what is wrong with one, in addition to those before it; empty: nothing. It is asked if no key alone is wrong; nil: nothing is
}

// In is the kind's value at p.
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

// Said is what keys say that plain ones do not, in one line. What has to be given needs no name.
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

func (m membersIn[T]) Spec() Spec {
	x := m.New()
	return ListOfMappings(m.Keys(&x), m.Most, m.Least)
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
			*m.p = append(*m.p, m.New()) // so that the others keep their numbers
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
