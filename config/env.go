package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

const envPrefix = "TEMPOMAT_"

// foreign are variables that begin as ours and are not: those of the tests, and
// those that Kubernetes and Docker set for a service that is called tempomat.
var foreign = regexp.MustCompile(
	`^TEMPOMAT_((VECTORS|TEST)_.*|(.*_)?SERVICE_HOST|(.*_)?SERVICE_PORT(_.*)?|(.*_)?PORT(_\d+_(TCP|UDP|SCTP)(_.*)?)?)$`)

// variable is the environment's name of a path: throttle.maxHold is
// TEMPOMAT_THROTTLE_MAX_HOLD.
func variable(path string) string {
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

// variables are the settings that the environment can give: all that are one
// value, in the modern form.
func variables(d *draft) []setting {
	table := settings(d)
	for _, c := range d.classes {
		table = append(table, classSettings(c)...)
	}
	return slices.DeleteFunc(table, func(s setting) bool {
		return s.seed || s.path == "classes" || s.path == "exempt" || s.path == "limits" || s.path == "coordination.smockron.domains"
	})
}

// environment lays TEMPOMAT_ variables over what the file gave.
func (r *reader) environment(env []string, d *draft) {
	table := variables(d)
	seen := make(map[string]string) // path -> the variable that set it
	for _, pair := range env {
		name, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, envPrefix) || foreign.MatchString(name) {
			continue
		}
		at := source{file: environment, key: name}
		i := slices.IndexFunc(table, func(s setting) bool { return variable(s.path) == name })
		if i < 0 {
			r.unknownVariable(at, table, seedSettings(d))
			continue
		}
		s := table[i]
		target := s.path
		if s.same != "" {
			target = s.same
		}
		if other, twice := seen[target]; twice && other != name {
			r.fault(at, "", other+" sets the same; keep one of the two")
			continue
		}
		seen[target] = name
		r.given[target] = at
		r.readVariable(at, s, text, d)
	}
}

func (r *reader) readVariable(at source, s setting, text string, d *draft) {
	for _, c := range d.classes {
		if c.off && strings.HasPrefix(s.path, classPath(c.Name)+".") {
			r.fault(at, "", fmt.Sprintf("the class %s is switched off", c.Name))
			return
		}
	}
	s.value.read(r, at, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text})
}

// unknownVariable notes one that does not exist, with the one that may be meant:
// that of an original key's modern form, or one that is spelt much like it.
func (r *reader) unknownVariable(at source, table, seeds []setting) {
	switch at.key {
	case variable("exempt"), variable("classes"), variable("limits"):
		r.fault(at, "", "is no single value; give it in the file")
		return
	}
	names := make([]string, 0, len(table))
	for _, s := range table {
		names = append(names, variable(s.path))
	}
	problem := "unknown variable"
	meant := nearest(at.key, names)
	for _, s := range seeds {
		if variable(s.path) == at.key {
			meant = variable(s.same)
		}
	}
	if meant != "" {
		problem += "; did you mean " + meant + "?"
	}
	r.fault(at, "", problem)
}
