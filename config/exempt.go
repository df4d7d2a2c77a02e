package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// maxExempt is the most exemptions: every request is held against each.
const maxExempt = 256

// exemptions reads the list of what is never charged.
type exemptions struct{ p *[]Exemption }

func (v exemptions) text() string {
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

func (v exemptions) read(r *reader, at source, n *yaml.Node) {
	*v.p = nil
	switch {
	case isNull(n):
		return
	case n.Kind != yaml.SequenceNode:
		r.fault(at, shownNode(n), "must be a list such as [{cidr: 10.0.0.0/8}, {path: /healthz}]")
		return
	case len(n.Content) > maxExempt:
		r.fault(at, "", fmt.Sprintf("has %d members; at most %d are allowed", len(n.Content), maxExempt))
		return
	}
	for i, item := range n.Content {
		here := at.item(i).on(item)
		if item.Kind != yaml.MappingNode || len(item.Content) == 0 {
			r.fault(here, shownNode(item), "must be a mapping with cidr, path or both")
			continue
		}
		var e Exemption
		r.mapping(here, item, "", exemptSettings(&e))
		*v.p = append(*v.p, e)
	}
}

func exemptSettings(e *Exemption) []setting {
	return []setting{
		{path: "cidr", value: oneCIDR(&e.CIDR)},
		{path: "path", value: exemptPath(&e.Path)},
	}
}

func oneCIDR(p *netip.Prefix) scalar {
	return scalar{
		set: func(text string) (err error) {
			*p, err = parsePrefix(text)
			return err
		},
		get: func() string { return p.String() },
	}
}

func exemptPath(p *string) scalar {
	odd := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || c == '?' || c == '#' }
	return scalar{
		set: func(text string) error {
			star := strings.IndexByte(text, '*')
			if !strings.HasPrefix(text, "/") || len(text) > 1024 || strings.ContainsFunc(text, odd) ||
				star >= 0 && star != len(text)-1 {
				return errors.New("must be a path such as /healthz, or /static/* for all that begins so, of at most 1024 characters")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}
