package form

import (
	"cmp"
	"fmt"
	"io"
)

// WriteReference writes the keys of a chapter as Markdown: what each one means, what is
// allowed, its default, how it takes effect, and its variable. What a value is now is
// told as its default.
func WriteReference(w io.Writer, table []Setting) {
	for _, s := range table {
		fmt.Fprintf(w, "\n#### `%s`\n\n", s.Path)
		if s.Gone != "" {
			fmt.Fprintf(w, "Has no effect any more: %s. It is accepted.\n", s.Gone)
			continue
		}
		fmt.Fprintf(w, "%s\n\n%s\n", s.Doc, facts(s, s.HasVariable()))
		spec := s.Value.Spec()
		if spec.Table != "" {
			fmt.Fprintf(w, "\n%s", spec.Table)
		}
		for _, m := range spec.Members {
			path := s.Path + spec.MemberPath + m.Path
			if m.Gone != "" {
				fmt.Fprintf(w, "\n#### `%s`\n\nHas no effect any more: %s. It is accepted.\n", path, m.Gone)
				continue
			}
			m.Restart = s.Restart
			inVariable := spec.MemberPath != "[]." && !spec.FileOnly
			m.Path = path
			fmt.Fprintf(w, "\n#### `%s`\n\n%s\n\n%s\n", path, m.Doc, facts(m, inVariable))
		}
	}
}

// facts are what a setting is in one line.
func facts(s Setting, variable bool) string {
	line := s.Allowed()
	switch {
	case s.AliasOf != "":
		line = "as `" + s.AliasOf + "`"
	case s.Required:
		line += " · must be given"
	case s.Default != "":
		line += " · default: " + s.Default
	case s.Value.Text() == "":
		line += " · default: none"
	default:
		line += " · default: `" + s.Value.Text() + "`"
	}
	if s.Restart {
		line += " · **restart**"
	} else {
		line += " · reload"
	}
	if variable {
		line += " · `" + Variable(s.Path) + "`"
	}
	return line
}

// Allowed is what the value may be, as Markdown.
func (s Setting) Allowed() string {
	spec := s.Value.Spec()
	kind := spec.Type
	switch {
	case kind != "" && s.Unit != "":
		kind += " of " + s.Unit
	case s.Unit != "":
		spec.Allowed += ", in " + s.Unit
	}
	if kind != "" && spec.Allowed != "" {
		return kind + ": " + spec.Allowed
	}
	return cmp.Or(kind, spec.Allowed)
}

// WriteLegacy writes the table of keys of the original's file.
func WriteLegacy(w io.Writer, table []Setting) {
	fmt.Fprint(w, "\n| original | sets | allowed |\n|---|---|---|\n")
	for _, s := range table {
		allowed := s.Allowed()
		if s.Doc != "" {
			allowed += ". " + s.Doc
		}
		fmt.Fprintf(w, "| `%s` | `%s` | %s |\n", s.Path, s.AliasOf, allowed)
	}
}
