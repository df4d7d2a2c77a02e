package config

import (
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// MaxClasses is the most classes there can be, which is the most keys that the
// limiter charges one request to.
const MaxClasses = 8

// builtIn names the classes that are there without being written, in their order.
func builtIn() []string { return []string{"slash32", "slash24", "slash16", "userAgent"} }

var className = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// draftClass is a class under construction.
type draftClass struct {
	Class
	at  source // where the file names it
	own bool   // not built in
	off bool
}

// class is the class of that name; nil if there is none.
func (d *draft) class(name string) *draftClass {
	for _, c := range d.classes {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// classPath is the path of a class's key.
func classPath(name string) string { return "classes." + name }

// classSettings are the keys of one class.
func classSettings(c *draftClass) []setting {
	path := classPath(c.Name)
	table := []setting{
		{path: path + ".share", value: share(&c.Share)},
		{path: path + ".burst", value: duration(&c.Burst, 0, day)},
		{path: path + ".cap", value: boolean(&c.Cap)},
		{path: path + ".shadow", value: boolean(&c.Shadow)},
	}
	if !c.own {
		return append(table,
			setting{path: path, value: offSwitch(c)},
			setting{path: path + ".header", value: notBuiltIn()},
			setting{path: path + ".path", value: notBuiltIn()})
	}
	return append(table,
		setting{path: path + ".header", value: headerName(&c.Header)},
		setting{path: path + ".path", value: boolean(&c.Path)})
}

// notBuiltIn is the value of keys that only a class of one's own has.
func notBuiltIn() scalar {
	return scalar{
		set: func(string) error { return errors.New("is only for a class of your own; this one is built in") },
		get: func() string { return "" },
	}
}

// offSwitch is the class's own value where it is no mapping.
func offSwitch(c *draftClass) scalar {
	return scalar{
		set: func(text string) error {
			switch {
			case !strings.EqualFold(text, "off") && !strings.EqualFold(text, "false"):
				return errors.New("must be a mapping such as {share: 0.1, burst: 30s}, or off")
			case c.Name == "slash32":
				return errors.New("cannot be switched off: it is the client itself")
			}
			c.off = true
			return nil
		},
		get: func() string { return describeClass(c.Class, c.off) },
	}
}

func describeClass(c Class, off bool) string {
	if off {
		return "off"
	}
	text := fmt.Sprintf("share %s, burst %s", number(c.Share), short(c.Burst))
	if c.Header != "" {
		text += ", by header " + c.Header
	}
	if c.Path {
		text += ", by path"
	}
	return text + flags(c)
}

func flags(c Class) string {
	text := ""
	if c.Cap {
		text += ", hard cap"
	}
	if c.Shadow {
		text += ", shadow"
	}
	return text
}

// headerName takes a field name of HTTP (RFC 9110, 5.1: a token).
func headerName(p *string) scalar {
	odd := func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}
	return scalar{
		set: func(text string) error {
			if text == "" || len(text) > 64 || strings.ContainsFunc(text, odd) {
				return errors.New("must be the name of a request header, such as X-Api-Key, of at most 64 characters")
			}
			if strings.EqualFold(text, "Host") {
				return errors.New("cannot be the Host header, which belongs to the site and not to the client")
			}
			*p = textproto.CanonicalMIMEHeaderKey(text)
			return nil
		},
		get: func() string { return *p },
	}
}

// classes reads the mapping of class names to classes.
type classes struct{ d *draft }

func (v classes) text() string { return "" }

func (v classes) read(r *reader, at source, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.fault(at, shownNode(n), "must be a mapping of class names to classes, not "+kindName(n))
		return
	}
	if named := len(n.Content) / 2; named > len(builtIn())+MaxClasses { // even if it names all built-in ones to have them off
		r.fault(at, "", fmt.Sprintf("names %d classes; at most %d are allowed", named, MaxClasses))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := at.under(key.Value).on(key)
		if c := v.named(r, here, key.Value, value); c != nil {
			c.at = here
			v.readClass(r, here, value, c)
		}
	}
}

// named is the class to read into, a new one if need be; nil if the name
// cannot be one.
func (v classes) named(r *reader, at source, name string, n *yaml.Node) *draftClass {
	if c := v.d.class(name); c != nil {
		return c
	}
	if !className.MatchString(name) {
		r.fault(at, "", "a class's name has 1 to 32 letters, digits, _ and -, and begins with a letter")
		return nil
	}
	if meant := nearest(name, builtIn()); meant != "" && n.Kind == yaml.MappingNode && !givesKind(n) {
		r.fault(at, "", fmt.Sprintf("unknown class; did you mean %q? A class of your own needs header or path", meant))
		return nil
	}
	alike := func(c *draftClass) bool { return fold(c.Name) == fold(name) }
	if i := slices.IndexFunc(v.d.classes, alike); i >= 0 {
		r.fault(at, "", fmt.Sprintf("too much like the class %s: names must differ in more than case, _ and -", v.d.classes[i].Name))
		return nil
	}
	c := &draftClass{Class: Class{Name: name, Burst: defaultBurst}, own: true}
	v.d.classes = append(v.d.classes, c)
	return c
}

// givesKind is true if the mapping says how a class of one's own groups.
func givesKind(n *yaml.Node) bool {
	return slices.ContainsFunc(n.Content, func(k *yaml.Node) bool { return k.Value == "header" || k.Value == "path" })
}

// fold makes names equal that could be taken for each other, here or as
// variables of the environment.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

func (v classes) readClass(r *reader, at source, n *yaml.Node, c *draftClass) {
	path := classPath(c.Name)
	table := classSettings(c)
	switch {
	case n.Kind == yaml.MappingNode:
		r.mapping(at, n, path+".", table)
	case c.own:
		r.fault(at, shownNode(n), "must be a mapping such as {header: X-Api-Key, share: 0.1}; leave it out to have it off")
		c.off = true
	case n.Kind == yaml.ScalarNode:
		r.given[path+".share"] = at // who switches it off cannot also give it slash24Share
		if isNull(n) {
			n = &yaml.Node{Kind: yaml.ScalarNode, Value: "off"}
		}
		offSwitch(c).read(r, at, n)
	default:
		r.fault(at, "", "must be a mapping such as {share: 0.1, burst: 30s}, or off")
	}
}
