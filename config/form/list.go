package form

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

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
	before := len(r.Faults)
	keys := l.Mapping(&x)
	r.Mapping(at, n, "", keys)
	for _, key := range keys {
		if key.Required && !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Value == key.Path }) {
			r.Fault(at, "", "has no "+key.Path)
		}
	}
	if len(r.Faults) > before {
		return
	}
	if err := l.add(l.Of.Format(x)); err != nil {
		r.Fault(at, "", err.Error())
	}
}

func tooMany(n, most int) string {
	return fmt.Sprintf("has %d members; at most %d are allowed", n, most)
}
