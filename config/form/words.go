package form

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// IsNull is true for a key without a value, and for null and ~.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// KindName says in words what n is.
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
