package form

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

const envPrefix = "TEMPOMAT_"

// foreign are variables that begin as ours and are not: those of the tests, and
// those that Kubernetes and Docker set for a service that is called tempomat. A name that ends in
// PORT could be meant for us as well: theirs has a URL.
var foreign = regexp.MustCompile(
	`^TEMPOMAT_((VECTORS|TEST)_.*|(.*_)?SERVICE_HOST|(.*_)?SERVICE_PORT(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?)=|` +
		`^TEMPOMAT_(.*_)?PORT=(tcp|udp|sctp)://`)

// Variable is the environment's name of a path: throttle.maxHold is
// TEMPOMAT_THROTTLE_MAX_HOLD.
func Variable(path string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	var before rune
	for _, c := range path {
		switch {
		case c == '.' || c == '-':
			c = '_'
		case unicode.IsUpper(c) && (unicode.IsLower(before) || unicode.IsDigit(before)):
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(c))
		before = c
	}
	return b.String()
}

// Environment lays TEMPOMAT_ variables over what the file gave. env holds
// "NAME=value" as os.Environ does. refuse says why a setting cannot be given now;
// empty: it can.
func (r *Reader) Environment(env []string, table []Setting, refuse func(s Setting) string) {
	seen := make(map[string]string) // path -> the variable that set it
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || foreign.MatchString(pair) {
			continue
		}
		at := Source{File: environment, Key: name}
		i := slices.IndexFunc(table, func(s Setting) bool { return s.HasVariable() && Variable(s.Path) == name })
		if i < 0 {
			r.unknownVariable(at, table)
			continue
		}
		s := table[i]
		target := s.Path
		if s.AliasOf != "" {
			target = s.AliasOf
		}
		if other, twice := seen[target]; twice && other != name {
			r.Fault(at, "", other+" sets the same; keep one of the two")
			continue
		}
		seen[target] = name
		r.Given[target] = at
		if problem := refuse(s); problem != "" {
			r.Fault(at, "", problem)
			continue
		}
		r.read(s, at, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text})
	}
}

// unknownVariable notes one that does not exist, with the one that may be meant:
// that of an original key's modern form, or one that is spelt much like it.
func (r *Reader) unknownVariable(at Source, table []Setting) {
	var names []string
	modern := ""
	for _, s := range table {
		name := Variable(s.Path)
		switch {
		case s.HasVariable() && !s.Went():
			names = append(names, name)
		case name != at.Key:
		case s.Legacy:
			modern = Variable(s.AliasOf)
		default:
			r.Fault(at, "", "is no single value; give it in the file")
			return
		}
	}
	if modern == "" {
		modern = Nearest(at.Key, names)
	}
	problem := "unknown variable"
	if modern != "" {
		problem += "; did you mean " + modern + "?"
	}
	r.Fault(at, "", problem)
}
