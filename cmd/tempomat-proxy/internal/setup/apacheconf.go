package setup

import (
	"slices"
	"strings"

	"tempomat/proxy/host"
)

// inForce tells whether Apache reads a directive, by the <IfModule> sections around
// it. It is not known within any other section that depends on something.
func inForce(d host.Directive, modules []string) (active, known bool) {
	active, known = true, true
	for _, s := range d.Within {
		switch s.Name {
		case "ifmodule":
			if len(s.Args) != 1 {
				return false, false
			}
			name, not := strings.CutPrefix(s.Args[0], "!")
			if slices.Contains(modules, host.ModuleName(name)) == not {
				active = false
			}
		case "virtualhost", "directory", "directorymatch", "location", "locationmatch", "files", "filesmatch", "limit", "limitexcept", "proxy", "proxymatch":
		default: // IfDefine, IfVersion, IfFile, If, Macro
			known = false
		}
	}
	return active, known || !active
}

// apacheHost is a <VirtualHost> with what is in it.
type apacheHost struct {
	start host.Directive
	end   int // the line of </VirtualHost>
	all   []host.Directive
}

// hostAt finds the section that begins at a line of a file; nil: there is none.
func hostAt(directives []host.Directive, at Position) *apacheHost {
	var h *apacheHost
	for _, d := range directives {
		if d.File.Path != at.Path {
			continue
		}
		if h == nil {
			if d.Line == at.Line && d.Name == "<virtualhost" {
				h = &apacheHost{start: d}
			}
			continue
		}
		if slices.ContainsFunc(d.Within, func(s host.Section) bool { return s.Name == "virtualhost" && s.Line == at.Line }) {
			h.all = append(h.all, d)
		}
	}
	if h != nil {
		h.end = endOfHost(h.start)
	}
	return h
}

func endOfHost(start host.Directive) int {
	lines := strings.Split(start.File.Text, "\n")
	for i := start.Line; i < len(lines); i++ {
		if strings.EqualFold(strings.TrimSpace(lines[i]), "</VirtualHost>") {
			return i + 1
		}
	}
	return 0
}

// first returns the arguments of the first directive of that name.
func (h *apacheHost) first(name string) []string {
	for _, d := range h.all {
		if d.Name == name {
			return d.Args
		}
	}
	return nil
}

// names are ServerName and ServerAlias, without scheme and port.
func (h *apacheHost) names() (names []string) {
	for _, d := range h.all {
		if d.Name == "servername" || d.Name == "serveralias" {
			for _, n := range d.Args {
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
