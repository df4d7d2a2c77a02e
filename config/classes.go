package config

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"tempomat/classify/class"
	"tempomat/config/form"
)

// mostNamed is how many classes may be named, those that are to be off included.
const mostNamed = 3 * maxClasses

// classes reads the mapping of class names to classes.
type classes struct{ d *draft }

// Spec shows the keys of a class of one's own, which has all.
func (v classes) Spec() form.Spec {
	members := classMembers(&draftClass{Class: Class{Name: "NAME", Burst: defaultBurst}, own: true})
	own := form.MappingSchema(members)
	own["required"] = []string{"share"}
	own["anyOf"] = []form.Schema{{"required": []string{"header"}}, {"required": []string{"path"}}}
	builtIns := form.Schema{}
	for i, k := range class.Kinds() {
		schema := form.MappingSchema(classMembers(newBuiltIn(k)))
		if !k.Usual {
			schema["required"] = []string{"share"}
			schema = form.AnyOf(schema, own)
		}
		if i > 0 {
			schema = form.AnyOf(form.Schema{"enum": []any{"off", "false", false, nil}}, schema)
		}
		builtIns[k.Name] = schema
	}
	for _, name := range goneClasses() {
		builtIns[name] = form.Schema{"deprecated": true}
	}
	return form.Spec{
		Type: "mapping", Allowed: fmt.Sprintf("names of classes, at most %d that are on", maxClasses),
		Table: builtInTable(), Nested: true, Members: members, MemberPath: ".NAME.",
		Schema: form.Schema{
			"type": []string{"object", "null"}, "properties": builtIns,
			"maxProperties": mostNamed,
			"propertyNames": form.Schema{"pattern": className.String()}, "additionalProperties": own,
		},
	}
}

func (v classes) Text() string { return "" }

func (v classes) Read(r *form.Reader, at form.Source, n *yaml.Node) {
	if form.IsNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.Fault(at, form.QuotedNode(n), "must be a mapping of class names to classes, not "+form.KindName(n))
		return
	}
	if named := len(n.Content) / 2; named > mostNamed {
		r.Fault(at, "", fmt.Sprintf("names %d classes; at most %d are allowed", named, maxClasses))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		here := at.Under(key.Value).On(key)
		if c := v.named(r, here, key.Value, value); c != nil {
			c.at = here
			v.readClass(r, here, value, c)
		}
	}
}

// named is the class to read into, a new one if need be; nil if the name
// cannot be one.
func (v classes) named(r *form.Reader, at form.Source, name string, n *yaml.Node) *draftClass {
	if c := v.d.class(name); c != nil {
		c.off = c.off && n.Kind != yaml.MappingNode
		c.own = c.own || !c.kind.Usual && givesKind(n) // a class of one's own that was there before the built-in one
		return c
	}
	if !className.MatchString(name) {
		r.Fault(at, "", "a class's name has 1 to 32 letters, digits, _ and -, and begins with a letter")
		return nil
	}
	if fold(name) == RobotClass || fold(name) == SessionClass {
		r.Fault(at, "", "there is such a class already, which is no key here: see robots and standing")
		return nil
	}
	if slices.Contains(goneClasses(), name) && !givesKind(n) {
		r.Gone(at, "leave it out, or group by fingerprint or by a header of your own")
		return nil
	}
	if meant := form.Nearest(name, builtIn()); meant != "" && n.Kind == yaml.MappingNode && !givesKind(n) {
		r.Fault(at, "", fmt.Sprintf("unknown class; did you mean %q? A class of your own needs header or path", meant))
		return nil
	}
	alike := func(c *draftClass) bool { return fold(c.Name) == fold(name) && !c.isAbsent() }
	if i := slices.IndexFunc(v.d.classes, alike); i >= 0 {
		r.Fault(at, "", fmt.Sprintf("too much like the class %s: names must differ in more than case, _ and -", v.d.classes[i].Name))
		return nil
	}
	c := &draftClass{Class: Class{Name: name, Burst: defaultBurst}, own: true}
	v.d.classes = append(v.d.classes, c)
	return c
}

// goneClasses are those of earlier releases that there are no more.
func goneClasses() []string { return []string{"method", "tcpFingerprint"} }

// givesKind is true if the mapping says how a class of one's own groups.
func givesKind(n *yaml.Node) bool {
	return slices.ContainsFunc(n.Content, func(k *yaml.Node) bool { return k.Value == "header" || k.Value == "path" })
}

// fold makes names equal that could be taken for each other, here or as
// variables of the environment.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

func (v classes) readClass(r *form.Reader, at form.Source, n *yaml.Node, c *draftClass) {
	path := classPath(c.Name)
	table := classSettings(c)
	switch {
	case n.Kind == yaml.MappingNode:
		r.Mapping(at, n, path+".", table)
	case c.own:
		r.Fault(at, form.QuotedNode(n), "must be a mapping such as {header: X-Api-Key, share: 0.1}; leave it out to have it off")
		c.off = true
	case n.Kind == yaml.ScalarNode:
		r.Given[path+".share"] = at // who switches it off cannot also give it slash24Share
		if form.IsNull(n) {
			n = &yaml.Node{Kind: yaml.ScalarNode, Value: "off"}
		}
		offSwitch(c).In(&c.off).Read(r, at, n)
	default:
		r.Fault(at, "", "must be a mapping such as {share: 0.1, burst: 30s}, or off")
	}
}

// validateClasses checks that there are not too many, and that those of one's own say what
// they are.
func validateClasses(r *form.Reader, d *draft) {
	on := 0
	for _, c := range d.classes {
		if c.off {
			continue
		}
		if on++; on == maxClasses+1 {
			r.Fault(c.at, "", fmt.Sprintf("is one class too many; at most %d are allowed", maxClasses))
		}
		if c.kind.Usual {
			continue
		}
		_, hasShare := r.Given[classPath(c.Name)+".share"]
		_, hasHeader := r.Given[classPath(c.Name)+".header"]
		hasPath := c.Path || r.Faulty(classPath(c.Name)+".path")
		if !hasShare {
			r.Fault(c.at, "", "has no share; "+needsShare(c))
		}
		if !c.own {
			validateDatabase(r, d, c)
			continue
		}
		if hasHeader == hasPath {
			r.Fault(c.at, "", "must have exactly one of header and path: true")
		}
	}
}

// needsShare says why.
func needsShare(c *draftClass) string {
	if c.own {
		return "a class of your own needs one"
	}
	return "what is fair for it only you can say"
}

// validateDatabase checks that a class has the database that it needs.
func validateDatabase(r *form.Reader, d *draft, c *draftClass) {
	if k := c.kind.Database; k != "" && d.Databases.file(k) == "" && !r.Faulty("databases."+k) {
		r.Fault(c.at, "", "needs databases."+k+", the MaxMind DB file of what addresses belong to")
	}
}
