package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"tempomat/config/form"
)

// Reference writes the reference of all keys as Markdown, from the table by which they
// are read.
func Reference(w io.Writer) {
	fmt.Fprint(w, `## Reference

Below each key stand what it may be, its default, how a changed value takes effect, and
its variable of the environment. **restart**: the running proxy cannot take it over; see
[Reload](#reload).
`)
	for _, c := range chapters(newDraft(Default())) {
		fmt.Fprintf(w, "\n### %s\n", c.title)
		if c.keys[0].Legacy {
			form.WriteLegacy(w, c.keys)
		} else {
			form.WriteReference(w, c.keys)
		}
	}
}

// Schema writes the JSON Schema (draft 2020-12) of a configuration file. It refuses what
// can be told of a key alone, and takes everything that Parse takes.
func Schema(w io.Writer) error {
	schema := form.MappingSchema(settings(newDraft(Default())))
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = "configuration of tempomat-proxy"
	schema["type"] = []string{"object", "null"}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(schema)
}

// builtInTable are the built-in classes as a table of Markdown.
func builtInTable() string {
	groupsBy := map[string]string{
		"slash32": "the client's address (IPv6: its /64); cannot be switched off", "slash24": "its /24 (IPv6: /56)",
		"slash16": "its /16 (IPv6: /48)", "userAgent": "the family of its User-Agent",
	}
	var b strings.Builder
	b.WriteString("| built-in class | groups by | share | burst |\n|---|---|---|---|\n")
	for _, c := range defaultClasses() {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | `%s` |\n", c.Name, groupsBy[c.Name], form.FormatNumber(c.Share), form.FormatDuration(c.Burst))
	}
	return b.String()
}
