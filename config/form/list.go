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
	return Spec{
		Type: "list", Allowed: allowed,
		Schema: AnyOf(Schema{"type": "array", "maxItems": l.Most, "items": l.Of.Schema}, Schema{"type": "string"}),
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
	if n.Kind == yaml.SequenceNode {
		if len(n.Content) > l.Most {
			r.Fault(at, "", tooMany(len(n.Content), l.Most))
			return
		}
		for i, member := range n.Content {
			readText(r, at.Item(i).On(member), member, l.add)
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

func tooMany(n, most int) string {
	return fmt.Sprintf("has %d members; at most %d are allowed", n, most)
}
