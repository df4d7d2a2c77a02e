package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"tempomat/classify/class"
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
	var b strings.Builder
	b.WriteString("| built-in class | groups by | share | burst |\n|---|---|---|---|\n")
	for _, k := range class.Kinds() {
		share, burst := "off", form.FormatDuration(defaultBurst)
		if k.Usual {
			share, burst = "`"+form.FormatNumber(k.Share)+"`", form.FormatDuration(k.Burst)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", k.Name, k.Groups, share, burst)
	}
	return b.String()
}
