package setup

import (
	"slices"
	"strings"
)

// directive is one line of an Apache configuration, or several that a backslash joins.
type directive struct {
	file   *File
	line   int    // the first one, from 1
	joined bool   // it goes over several lines
	name   string // in small letters; of a section <virtualhost
	args   []string
	within []section // the sections around it, outermost first
}

// section is a pair of tags such as <IfModule ssl_module>.
type section struct {
	name string // in small letters
	args []string
	line int
}

// parseApache reads the lines of a file. It follows no Include: Apache tells which
// files it reads.
func parseApache(f *File) []directive {
	var all []directive
	var within []section
	text, first := "", 0
	for i, line := range strings.Split(f.Text, "\n") {
		if first == 0 {
			first = i + 1
		}
		if joined, ok := strings.CutSuffix(line, `\`); ok {
			text += joined
			continue
		}
		text += line
		words := splitApache(text)
		joined := first != i+1
		at := first
		text, first = "", 0
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if tag, ok := strings.CutPrefix(words[0], "</"); ok {
			within = closeSection(within, strings.ToLower(strings.TrimSuffix(tag, ">")))
			continue
		}
		d := directive{file: f, line: at, joined: joined, name: strings.ToLower(words[0]), args: words[1:], within: slices.Clone(within)}
		if tag, ok := strings.CutPrefix(d.name, "<"); ok {
			d.name, d.args = openSection(tag, d.args)
			within = append(within, section{strings.TrimPrefix(d.name, "<"), d.args, at})
		}
		all = append(all, d)
	}
	return all
}

// openSection returns the name of a section, with its bracket, and its arguments.
func openSection(tag string, args []string) (string, []string) {
	args = slices.Clone(args)
	if n := len(args); n > 0 {
		args[n-1] = strings.TrimSuffix(args[n-1], ">")
		if args[n-1] == "" {
			args = args[:n-1]
		}
	}
	return "<" + strings.TrimSuffix(tag, ">"), args
}

// closeSection goes back to before the innermost section of that name.
func closeSection(within []section, name string) []section {
	for i, s := range slices.Backward(within) {
		if s.name == name {
			return within[:i]
		}
	}
	return within
}

// splitApache parts a line into words. Quotes hold a word together.
func splitApache(line string) []string {
	var words []string
	rest := strings.TrimSpace(line)
	for rest != "" {
		var word string
		if q := rest[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(rest[1:], q)
			if end < 0 {
				return append(words, rest[1:])
			}
			word, rest = rest[1:1+end], rest[end+2:]
		} else {
			end := strings.IndexAny(rest, " \t")
			if end < 0 {
				end = len(rest)
			}
			word, rest = rest[:end], rest[end:]
		}
		words = append(words, word)
		rest = strings.TrimLeft(rest, " \t")
	}
	return words
}

// inForce tells whether Apache reads a directive, by the <IfModule> sections around
// it. It is not known within any other section that depends on something.
func inForce(d directive, modules []string) (active, known bool) {
	active, known = true, true
	for _, s := range d.within {
		switch s.name {
		case "ifmodule":
			if len(s.args) != 1 {
				return false, false
			}
			name, not := strings.CutPrefix(s.args[0], "!")
			if slices.Contains(modules, moduleName(name)) == not {
				active = false
			}
		case "virtualhost", "directory", "directorymatch", "location", "locationmatch", "files", "filesmatch", "limit", "limitexcept", "proxy", "proxymatch":
		default: // IfDefine, IfVersion, IfFile, If, Macro
			known = false
		}
	}
	return active, known || !active
}

// moduleName is the identifier of a module that may be named by its source file.
func moduleName(name string) string {
	if base, ok := strings.CutSuffix(name, ".c"); ok {
		return strings.TrimPrefix(base, "mod_") + "_module"
	}
	return name
}

// apacheHost is a <VirtualHost> with what is in it.
type apacheHost struct {
	start directive
	end   int // the line of </VirtualHost>
	all   []directive
}

// hostAt finds the section that begins at a line of a file; nil: there is none.
func hostAt(directives []directive, at Position) *apacheHost {
	var h *apacheHost
	for _, d := range directives {
		if d.file.Path != at.Path {
			continue
		}
		if h == nil {
			if d.line == at.Line && d.name == "<virtualhost" {
				h = &apacheHost{start: d}
			}
			continue
		}
		if slices.ContainsFunc(d.within, func(s section) bool { return s.name == "virtualhost" && s.line == at.Line }) {
			h.all = append(h.all, d)
		}
	}
	if h != nil {
		h.end = endOfHost(h.start)
	}
	return h
}

func endOfHost(start directive) int {
	lines := strings.Split(start.file.Text, "\n")
	for i := start.line; i < len(lines); i++ {
		if strings.EqualFold(strings.TrimSpace(lines[i]), "</VirtualHost>") {
			return i + 1
		}
	}
	return 0
}

// first returns the arguments of the first directive of that name.
func (h *apacheHost) first(name string) []string {
	for _, d := range h.all {
		if d.name == name {
			return d.args
		}
	}
	return nil
}

// names are ServerName and ServerAlias, without scheme and port.
func (h *apacheHost) names() (names []string) {
	for _, d := range h.all {
		if d.name == "servername" || d.name == "serveralias" {
			for _, n := range d.args {
				if _, after, ok := strings.Cut(n, "://"); ok {
					n = after
				}
				n, _, _ = strings.Cut(n, ":")
				names = append(names, n)
			}
		}
	}
	return names
}
