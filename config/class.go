package config

import (
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"tempomat/classify"
	"tempomat/config/form"
)

// maxClasses is the most classes there can be, which is the most keys that the
// limiter charges one request to.
const maxClasses = 8

// builtIn names the built-in classes, in their order.
func builtIn() (names []string) {
	for _, k := range classify.Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// usual names those of them that are on unless they are switched off.
func usual() (names []string) {
	for _, c := range defaultClasses() {
		names = append(names, c.Name)
	}
	return names
}

// Class is a way of grouping requests, and what each group may use.
type Class struct {
	Name   string        // of a built-in class, or of one's own
	Header string        // a class of one's own: group by the value of this request header
	Path   bool          // a class of one's own: group by the shape of the path
	Share  float64       // part of all CPUs that each key may use steadily, above 0 to 1
	Burst  time.Duration // most CPU time that a key can save up
	Cap    bool          // a hard ceiling in every mode but observe
	Shadow bool          // judge and count, never act
}

// defaultBurst is the burst of a class that gives none.
const defaultBurst = classify.DefaultBurst

func defaultClasses() (all []Class) {
	for _, k := range classify.Kinds() {
		if k.Usual {
			all = append(all, Class{Name: k.Name, Share: k.Share, Burst: k.Burst})
		}
	}
	return all
}

// Databases are the files of what addresses belong to; empty: there is none.
type Databases struct{ ASN, Country string }

// file is the one of a kind.
func (d *Databases) file(kind string) string {
	return map[string]string{"asn": d.ASN, "country": d.Country}[kind]
}

// Files are those that are given, by what they tell.
func (d *Databases) Files() map[string]string {
	files := make(map[string]string)
	for _, k := range classify.Kinds() {
		if file := d.file(k.Database); file != "" {
			files[k.Database] = file
		}
	}
	return files
}

var className = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// draftClass is a class under construction.
type draftClass struct {
	Class
	at   form.Source   // where the file names it
	kind classify.Kind // zero: it is not built in
	own  bool          // so is one that groups otherwise than the built-in class of its name
	off  bool
}

// newBuiltIn is a built-in class that is off.
func newBuiltIn(k classify.Kind) *draftClass {
	return &draftClass{Class: Class{Name: k.Name, Burst: defaultBurst}, kind: k, off: true}
}

// isAbsent is true if a class is only there to be found by its name: it isn't configured, and
// it is off.
func (c *draftClass) isAbsent() bool { return c.off && !c.own && !c.kind.Usual }

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
func classSettings(c *draftClass) []form.Setting {
	path := classPath(c.Name)
	table := []form.Setting{
		{Path: path + ".share", Value: share().In(&c.Share), Default: "as in the table; otherwise required",
			Doc: "Part of all CPUs that each key of the class may use in the long run."},
		{Path: path + ".burst", Value: form.Duration(0, day).In(&c.Burst), Default: "as in the table; otherwise `30s`",
			Doc: "Most CPU time that a key can save up while it is quiet."},
		{Path: path + ".cap", Value: form.Boolean().In(&c.Cap),
			Doc: "Hard ceiling: requests wait until their key's debt is paid, even if the server is idle. It has no effect in `observe`."},
		{Path: path + ".shadow", Value: form.Boolean().In(&c.Shadow),
			Doc: "Count what this class would delay or reject, and do neither."},
	}
	if !c.own {
		return append(table, form.Setting{Path: path, Value: offSwitch(c).In(&c.off)})
	}
	return append(table,
		form.Setting{Path: path + ".header", Value: headerName().In(&c.Header), Default: "none",
			Doc: "Request header whose value is the key. Only for a class of your own."},
		form.Setting{Path: path + ".path", Value: form.Boolean().In(&c.Path),
			Doc: "Group by the shape of the path: the path without numbers, titles and tokens. Only for a class of your own."})
}

// classMembers are its keys as a class's own mapping has them.
func classMembers(c *draftClass) (members []form.Setting) {
	for _, s := range classSettings(c) {
		if name, inside := strings.CutPrefix(s.Path, classPath(c.Name)+"."); inside {
			s.Path = name
			members = append(members, s)
		}
	}
	return members
}

// classesSettings are the keys that set how requests are grouped, and which are charged.
func classesSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "classes", Value: classes{d}, Default: "`slash32`, `slash24`, `slash16` and `userAgent`",
			Doc: "Ways to group requests: built-in classes or your own, each with the keys below. A built-in class that is off turns on with a `share`."},
		{Path: "databases.asn", Value: file().In(&d.Databases.ASN),
			Doc: "MaxMind DB file (`.mmdb`) for class `asn`, [read again when it changes](tasks.md#add-classes)."},
		{Path: "databases.country", Value: file().In(&d.Databases.Country),
			Doc: "MaxMind DB file (`.mmdb`) for class `country`."},
		{Path: "exempt", Value: exemptions().In(&d.Exempt),
			Doc: "Requests that are never charged or delayed. A request is exempt if it matches all conditions of one member."},
	}
}

// offSwitch is the class's own value where it is no mapping.
func offSwitch(c *draftClass) form.Scalar[bool] {
	return form.Scalar[bool]{
		Type: "`off`",
		Parse: func(text string) (bool, error) {
			switch {
			case !strings.EqualFold(text, "off") && !strings.EqualFold(text, "false"):
				return false, errors.New("must be a mapping such as {share: 0.1, burst: 30s}, or off")
			case c.Name == classify.Kinds()[0].Name:
				return false, errors.New("cannot be switched off: it is the client itself")
			}
			return true, nil
		},
		Format: func(bool) string { return c.said() },
	}
}

// said lists all settings of a class.
func (c *draftClass) said() string {
	if c == nil || c.off {
		return "off"
	}
	return form.Said(classMembers(c), classMembers(&draftClass{Class: Class{Name: c.Name, Burst: -1}, own: c.own}))
}

// headerName is a field name of HTTP (RFC 9110, 5.1: a token).
func headerName() form.Scalar[string] {
	odd := func(c rune) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}
	return form.Text("a header's name of at most 64 characters, not `Host`", func(text string) (string, error) {
		if text == "" || len(text) > 64 || strings.ContainsFunc(text, odd) {
			return "", errors.New("must be the name of a request header, such as X-Api-Key, of at most 64 characters")
		}
		if strings.EqualFold(text, "Host") {
			return "", errors.New("cannot be the Host header, which belongs to the site and not to the client")
		}
		return textproto.CanonicalMIMEHeaderKey(text), nil
	})
}

// mostNamed is how many classes may be named, those that are to be off included.
const mostNamed = 3 * maxClasses

// classes reads the mapping of class names to classes.
type classes struct{ d *draft }

// Spec shows the keys of a class of one's own, which has all.
func (v classes) Spec() form.Spec {
	members := classMembers(&draftClass{Class: Class{Name: "NAME", Burst: defaultBurst}, own: true})
	class := form.AnyOf(form.Schema{"enum": []any{"off", "false", false, nil}}, form.MappingSchema(members))
	known := form.Schema{}
	for _, name := range builtIn() {
		known[name] = class
	}
	for _, name := range goneClasses() {
		known[name] = form.Schema{"deprecated": true}
	}
	return form.Spec{
		Type: "mapping", Allowed: fmt.Sprintf("names of classes, at most %d that are on", maxClasses),
		Table: builtInTable(), Nested: true, Members: members, MemberPath: ".NAME.",
		Schema: form.Schema{
			"type": []string{"object", "null"}, "properties": known,
			"maxProperties": mostNamed,
			"propertyNames": form.Schema{"pattern": className.String()}, "additionalProperties": class,
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
		r.Gone(at, "remove it, or group by fingerprint or by a header of your own")
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

// fold makes names equal that could be confused, here or as environment variables.
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
		r.Fault(at, form.QuotedNode(n), "must be a mapping such as {header: X-Api-Key, share: 0.1}; remove it to have it off")
		c.off = true
	case n.Kind == yaml.ScalarNode:
		r.Given[path+".share"] = at // it can't be off and have slash24Share
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

// needsShare is the error of a class without a share.
func needsShare(c *draftClass) string {
	if c.own {
		return "a class of your own needs one"
	}
	return "only you can decide what is fair for it"
}

// validateDatabase checks that a class has the database that it needs.
func validateDatabase(r *form.Reader, d *draft, c *draftClass) {
	if k := c.kind.Database; k != "" && d.Databases.file(k) == "" && !r.Faulty("databases."+k) {
		r.Fault(c.at, "", "needs databases."+k+", the MaxMind DB file of what addresses belong to")
	}
}
