package form

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

const envPrefix = "TEMPOMAT_"

// foreign matches variables that have this prefix but aren't settings: those of the tests, and those that
// Kubernetes and Docker set for a service named tempomat. A variable whose name ends in PORT doesn't match if
// its value isn't a URL, because it may then be a user's mistake.
var foreign = regexp.MustCompile(
	`^TEMPOMAT_((VECTORS|TEST)_.*|(.*_)?SERVICE_HOST|(.*_)?SERVICE_PORT(_.*)?|(.*_)?PORT_\d+_(TCP|UDP|SCTP)(_.*)?)=|` +
		`^TEMPOMAT_(.*_)?PORT=(tcp|udp|sctp)://`)

// Variable returns the name of the variable for a path. For throttle.maxHold, it is
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

// Environment applies TEMPOMAT_ variables, which override the file. env holds "NAME=value" pairs as os.Environ
// returns them. refuse returns the reason why a setting can't be set, or an empty string.
func (r *Reader) Environment(env []string, table []Setting, refuse func(s Setting) string) {
	seen := make(map[string]string) // the variable that set a path, by path
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
			r.Fault(at, "", other+" sets the same key; keep only one of them")
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

// unknownVariable reports a variable that doesn't exist. If the variable looks like a key of the original tempomat,
// unknownVariable suggests the one for the key's new form; otherwise, one with a similar name.
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
			r.Fault(at, "", "can't be set by a variable; set it in the file")
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
