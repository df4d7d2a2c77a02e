package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"tempomat/config/form"
)

// Exemption matches requests that are never charged or delayed. All that is
// given must match.
type Exemption struct {
	CIDR netip.Prefix // the client's address lies in it; the zero Prefix: any
	Path string       // the path is this, or begins so if it ends in *; empty: any
}

// maxExempt is the most exemptions: every request is held against each.
const maxExempt = 256

// exemptions reads the list of what is never charged.
type exemptions struct{ p *[]Exemption }

func (v exemptions) Text() string {
	var texts []string
	for _, e := range *v.p {
		switch {
		case !e.CIDR.IsValid():
			texts = append(texts, e.Path)
		case e.Path == "":
			texts = append(texts, e.CIDR.String())
		default:
			texts = append(texts, e.Path+" from "+e.CIDR.String())
		}
	}
	return strings.Join(texts, ", ")
}

func (v exemptions) Spec() form.Spec {
	return form.ListOfMappings(exemptSettings(&Exemption{}), maxExempt, 1)
}

func (v exemptions) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	*v.p = nil
	switch {
	case form.IsNull(n):
		return
	case n.Kind != yaml.SequenceNode:
		r.Fault(at, form.QuotedNode(n), "must be a list such as [{cidr: 10.0.0.0/8}, {path: /healthz}]")
		return
	case len(n.Content) > maxExempt:
		r.Fault(at, "", fmt.Sprintf("has %d members; at most %d are allowed", len(n.Content), maxExempt))
		return
	}
	for i, item := range n.Content {
		here := at.Item(i).On(item)
		if item.Kind != yaml.MappingNode || len(item.Content) == 0 {
			r.Fault(here, form.QuotedNode(item), "must be a mapping with cidr, path or both")
			continue
		}
		var e Exemption
		r.Mapping(here, item, "", exemptSettings(&e))
		*v.p = append(*v.p, e)
	}
}

func exemptSettings(e *Exemption) []form.Setting {
	return []form.Setting{
		{Path: "cidr", Value: prefix().In(&e.CIDR), Default: "any", Doc: "The client's address lies in it."},
		{Path: "path", Value: pathPattern().In(&e.Path), Default: "any", Doc: "The path is this, or begins so if it ends in `*`."},
	}
}

// pathPattern is a path, or the beginning of paths.
func pathPattern() form.Scalar[string] {
	odd := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == '?' || c == '#' }
	return form.Text("path", "begins with `/`; `*` only at the end; at most 1024 characters", func(text string) error {
		star := strings.IndexByte(text, '*')
		if !strings.HasPrefix(text, "/") || len(text) > 1024 || strings.ContainsFunc(text, odd) ||
			star >= 0 && star != len(text)-1 {
			return errors.New("must be a path such as /healthz, or /static/* for all that begins so, of at most 1024 characters")
		}
		return nil
	}).Matching(`^/[^*?#\s]*\*?$`)
}
