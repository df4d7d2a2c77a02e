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

// maxClasses is the largest number of classes that can be on. The limiter charges a request to one key of each
// class, and allows no more keys than this.
const maxClasses = 8

// builtIn returns the names of the built-in classes, in their usual order.
func builtIn() (names []string) {
	for _, k := range classify.Kinds() {
		names = append(names, k.Name)
	}
	return names
}

// usual returns the names of the built-in classes that are on by default.
func usual() (names []string) {
	for _, c := range defaultClasses() {
		names = append(names, c.Name)
	}
	return names
}

// Class groups requests, and limits the CPU time of each group.
type Class struct {
	Name   string        // the name of a built-in or a custom class
	Header string        // group by the value of this request header; only for a custom class
	Path   bool          // group by the shape of the path; only for a custom class
	Share  float64       // fraction of all CPUs that each key may use permanently, above 0 to 1
	Burst  time.Duration // the most CPU time that a key can save
	Cap    bool          // a hard ceiling, in every mode except observe
	Shadow bool          // only count what the class would delay or reject
}

// defaultBurst is the burst of a class for which none is configured.
const defaultBurst = classify.DefaultBurst

func defaultClasses() (all []Class) {
	for _, k := range classify.Kinds() {
		if k.Usual {
			all = append(all, Class{Name: k.Name, Share: k.Share, Burst: k.Burst})
		}
	}
	return all
}

// Databases are the names of the files that map addresses to autonomous systems and countries. An empty name means
// that there is no such file.
type Databases struct{ ASN, Country string }

// file returns the file for one kind of database.
func (d *Databases) file(kind string) string {
	return map[string]string{"asn": d.ASN, "country": d.Country}[kind]
}

// Files returns the configured database files, by their kind.
func (d *Databases) Files() map[string]string {
	files := make(map[string]string)
	for _, k := range classify.Kinds() {
		if file := d.file(k.Database); file != "" {
			files[k.Database] = file
		}
	}
	return files
}

// className matches the names of classes and of sites, which also appear in statistics.
var className = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,31}$`)

// draftClass is a class while the configuration is being read.
type draftClass struct {
	Class
	at   form.Source   // where the file names the class
	kind classify.Kind // the zero value if the class isn't built in
	own  bool          // the class is a custom one, which may have the name of a built-in class that is off by default
	off  bool
}

// newBuiltIn returns a built-in class that is off.
func newBuiltIn(k classify.Kind) *draftClass {
	return &draftClass{Class: Class{Name: k.Name, Burst: defaultBurst}, kind: k, off: true}
}

// isAbsent reports whether the class exists only to be found by its name: it is neither configured nor on by
// default.
func (c *draftClass) isAbsent() bool { return c.off && !c.own && !c.kind.Usual }

// class returns the class with a name, or nil.
func (d *draft) class(name string) *draftClass {
	for _, c := range d.classes {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// classPath returns the path of a class's key.
func classPath(name string) string { return "classes." + name }

// classSettings returns the keys of one class.
func classSettings(c *draftClass) []form.Setting {
	path := classPath(c.Name)
	table := []form.Setting{
		{Path: path + ".share", Value: share().In(&c.Share)},
		{Path: path + ".burst", Value: form.Duration(0, day).In(&c.Burst)},
		{Path: path + ".cap", Value: form.Boolean().In(&c.Cap)},
		{Path: path + ".shadow", Value: form.Boolean().In(&c.Shadow)},
	}
	if !c.own {
		return append(table, form.Setting{Path: path, Value: offSwitch(c).In(&c.off)})
	}
	return append(table,
		form.Setting{Path: path + ".header", Value: headerName().In(&c.Header)},
		form.Setting{Path: path + ".path", Value: form.Boolean().In(&c.Path)})
}

// classMembers returns the keys of a class with their paths inside the class's mapping.
func classMembers(c *draftClass) (members []form.Setting) {
	for _, s := range classSettings(c) {
		if name, inside := strings.CutPrefix(s.Path, classPath(c.Name)+"."); inside {
			s.Path = name
			members = append(members, s)
		}
	}
	return members
}

// classesSettings returns the keys that determine how requests are grouped, and which requests are charged.
func classesSettings(d *draft) []form.Setting {
	return []form.Setting{
		{Path: "classes", Value: classes{d}, Nested: true},
		{Path: "databases.asn", Value: file().In(&d.Databases.ASN)},
		{Path: "databases.country", Value: file().In(&d.Databases.Country)},
		{Path: "exempt", Value: exemptions().In(&d.Exempt), Nested: true},
	}
}

// offSwitch reads a class that is switched off by the word off instead of a mapping.
func offSwitch(c *draftClass) form.Scalar[bool] {
	return form.Scalar[bool]{
		Parse: func(text string) (bool, error) {
			switch {
			case !strings.EqualFold(text, "off") && !strings.EqualFold(text, "false"):
				return false, errors.New("must be a mapping such as {share: 0.1, burst: 30s}, or off")
			case c.Name == classify.Kinds()[0].Name:
				return false, errors.New("can't be switched off: its keys are the clients")
			}
			return true, nil
		},
		Format: func(bool) string { return c.said() },
	}
}

// said returns all settings of a class in one line.
func (c *draftClass) said() string {
	if c == nil || c.off {
		return "off"
	}
	return form.Said(classMembers(c), classMembers(&draftClass{Class: Class{Name: c.Name, Burst: -1}, own: c.own}))
}

// headerName reads the name of an HTTP header (RFC 9110, 5.1: a token).
func headerName() form.Scalar[string] {
	return form.Text(func(text string) (string, error) {
		if len(text) > 64 || !classify.IsToken(text) {
			return "", errors.New("must be the name of a request header, at most 64 characters long, such as X-Api-Key")
		}
		if strings.EqualFold(text, "Host") {
			return "", errors.New("can't be the Host header, which names the site and not the client")
		}
		return textproto.CanonicalMIMEHeaderKey(text), nil
	})
}

// mostNamed is the largest number of classes that a file may name, including those that it switches off.
const mostNamed = 3 * maxClasses

// classes reads the mapping from class names to classes.
type classes struct{ d *draft }

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

// named returns the class to read the value into. It adds a class if there is none with that name, and returns
// nil if the name isn't allowed.
func (v classes) named(r *form.Reader, at form.Source, name string, n *yaml.Node) *draftClass {
	if c := v.d.class(name); c != nil {
		c.off = c.off && n.Kind != yaml.MappingNode
		c.own = c.own || !c.kind.Usual && givesKind(n) // files for older releases may define a custom class with this name
		return c
	}
	if !className.MatchString(name) {
		r.Fault(at, "", "a class's name has 1 to 32 letters, digits, _ and -, and begins with a letter")
		return nil
	}
	if fold(name) == RobotClass || fold(name) == SessionClass {
		r.Fault(at, "", "is a built-in class that has no settings here; see robots and standing")
		return nil
	}
	if slices.Contains(goneClasses(), name) && !givesKind(n) {
		r.Gone(at, "remove it, or group by a header of your own")
		return nil
	}
	if meant := form.Nearest(name, builtIn()); meant != "" && n.Kind == yaml.MappingNode && !givesKind(n) {
		r.Fault(at, "", fmt.Sprintf("unknown class; did you mean %q? A class of your own needs header or path", meant))
		return nil
	}
	alike := func(c *draftClass) bool { return fold(c.Name) == fold(name) && !c.isAbsent() }
	if i := slices.IndexFunc(v.d.classes, alike); i >= 0 {
		r.Fault(at, "", fmt.Sprintf("too similar to the class %s: names must differ in more than case, _ and -", v.d.classes[i].Name))
		return nil
	}
	c := &draftClass{Class: Class{Name: name, Burst: defaultBurst}, own: true}
	v.d.classes = append(v.d.classes, c)
	return c
}

// goneClasses returns the built-in classes that only earlier releases had.
func goneClasses() []string { return []string{"method", "tcpFingerprint", "fingerprint"} }

// enabled returns the names of the classes that are on.
func (d *draft) enabled() (names []string) {
	for _, c := range d.classes {
		if !c.off {
			names = append(names, c.Name)
		}
	}
	return names
}

// insteadOf returns advice to append to the error about a class that isn't one of those in may.
func insteadOf(name string, may []string) string {
	if slices.Contains(goneClasses(), name) {
		return "; it existed only in earlier releases: add a class of your own that groups by a header, and name that class instead"
	}
	return "; the enabled classes are " + strings.Join(may, ", ")
}

// givesKind reports whether a mapping has a key that only custom classes have.
func givesKind(n *yaml.Node) bool {
	return slices.ContainsFunc(n.Content, func(k *yaml.Node) bool { return k.Value == "header" || k.Value == "path" })
}

// fold makes two names equal if people or environment variables could confuse them.
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
		r.Fault(at, form.QuotedNode(n), "must be a mapping such as {header: X-Api-Key, share: 0.1}; remove it to switch the class off")
		c.off = true
	case n.Kind == yaml.ScalarNode:
		r.Given[path+".share"] = at // with this, RefuseTwice finds slash24Share in addition to "slash24: off"
		if form.IsNull(n) {
			n = &yaml.Node{Kind: yaml.ScalarNode, Value: "off"}
		}
		offSwitch(c).In(&c.off).Read(r, at, n)
	default:
		r.Fault(at, "", "must be a mapping such as {share: 0.1, burst: 30s}, or off")
	}
}

// validateClasses checks that there aren't too many classes, and that the configuration says how each custom class
// groups requests.
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
			r.Fault(c.at, "", "must have either header or path: true, but not both")
		}
	}
}

// needsShare returns the rest of the error for a class without a share.
func needsShare(c *draftClass) string {
	if c.own {
		return "a class of your own needs one"
	}
	return "only you can decide what is fair for it"
}

// validateDatabase checks that the configuration names the database that a class needs.
func validateDatabase(r *form.Reader, d *draft, c *draftClass) {
	if k := c.kind.Database; k != "" && d.Databases.file(k) == "" && !r.Faulty("databases."+k) {
		r.Fault(c.at, "", "needs databases."+k+", the MaxMind DB file with the "+k+" of each address")
	}
}
