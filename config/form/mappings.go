package form

import (
	"fmt"
	"iter"

	"gopkg.in/yaml.v3"
)

// Mappings are the members of a list of at most so many mappings, and where each stands. What
// is none is a fault: example is such a list, and members what a mapping has to have, both
// as the message tells them.
func (r *Reader) Mappings(at Source, n *yaml.Node, most int, example, members string) iter.Seq2[Source, *yaml.Node] {
	return func(yield func(Source, *yaml.Node) bool) {
		switch {
		case IsNull(n):
			return
		case n.Kind != yaml.SequenceNode:
			r.Fault(at, QuotedNode(n), "must be a list such as "+example)
			return
		case len(n.Content) > most:
			r.Fault(at, "", fmt.Sprintf("has %d members; at most %d are allowed", len(n.Content), most))
			return
		}
		for i, item := range n.Content {
			here := at.Item(i).On(item)
			if item.Kind != yaml.MappingNode {
				r.Fault(here, QuotedNode(item), "must be a mapping with "+members)
				continue
			}
			if !yield(here, item) {
				return
			}
		}
	}
}
