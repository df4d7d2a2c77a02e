package form

import (
	"errors"
	"slices"

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

// But is the kind with a further check of the text, after which Parse sees it.
func (s Scalar[T]) But(check func(text string) error) Scalar[T] {
	parse := s.Parse
	s.Parse = func(text string) (T, error) {
		if err := check(text); err != nil {
			var none T
			return none, err
		}
		return parse(text)
	}
	return s
}

// Saying is the kind with another message, whatever is wrong with the text.
func (s Scalar[T]) Saying(problem string) Scalar[T] {
	parse := s.Parse
	s.Parse = func(text string) (T, error) {
		x, err := parse(text)
		if err != nil {
			err = errors.New(problem)
		}
		return x, err
	}
	return s
}

// Matching tells editors a regular expression that all texts match, as far as one can
// tell; it decides nothing here.
func (s Scalar[T]) Matching(pattern string) Scalar[T] {
	s.Schema = Schema{"type": "string", "pattern": pattern}
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

// Text is a kind of texts that are kept as they are.
func Text(kind, allowed string, sound func(text string) error) Scalar[string] {
	return Scalar[string]{
		Type: kind, Allowed: allowed, Schema: Schema{"type": "string"},
		Parse:  func(text string) (string, error) { return text, sound(text) },
		Format: func(text string) string { return text },
	}
}

// OrOff also takes the words, in any case, for no text at all, which is written as the
// first of them. The word "" stands for an empty text.
func OrOff(s Scalar[string], words ...string) Scalar[string] {
	parse, format := s.Parse, s.Format
	s.Allowed += ", or `" + words[0] + "`"
	s.Schema = AnyOf(Schema{"enum": words}, Schema{"type": "string", "pattern": anyCase(words...)}, s.Schema)
	s.Parse = func(text string) (string, error) {
		if slices.ContainsFunc(words, sameWord(text)) {
			return "", nil
		}
		return parse(text)
	}
	s.Format = func(text string) string {
		if text == "" {
			return words[0]
		}
		return format(text)
	}
	return s
}

// OrEmpty also takes an empty text.
func OrEmpty(s Scalar[string], means string) Scalar[string] {
	parse := s.Parse
	s.Allowed += ", or empty: " + means
	s.Schema = AnyOf(s.Schema, Schema{"const": ""})
	s.Parse = func(text string) (string, error) {
		if text == "" {
			return "", nil
		}
		return parse(text)
	}
	return s
}
