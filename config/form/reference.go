package form

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// WriteReference writes the keys of a chapter as Markdown: what each one means, what is
// allowed, its default, and how it takes effect. The value that a setting has now is
// written as its default.
func WriteReference(w io.Writer, table []Setting) {
	for _, s := range table {
		if s.AliasOf != "" || s.Went() {
			continue
		}
		fmt.Fprintf(w, "\n#### `%s`\n\n%s\n\n%s\n", s.Path, s.Doc, facts(s))
		spec := s.Value.Spec()
		if spec.Table != "" {
			fmt.Fprintf(w, "\n%s", spec.Table)
		}
		for _, m := range spec.Members {
			if m.Went() {
				continue
			}
			m.Restart = s.Restart
			m.Path = s.Path + spec.MemberPath + m.Path
			fmt.Fprintf(w, "\n#### `%s`\n\n%s\n\n%s\n", m.Path, m.Doc, facts(m))
		}
	}
}

// facts are what a setting is in one line.
func facts(s Setting) string {
	line := s.Allowed()
	switch {
	case s.Required:
		line += "; required"
	case s.Default != "":
		line += "; default " + s.Default
	case s.Value.Text() != "":
		line += "; default `" + s.Value.Text() + "`"
	}
	if s.Restart {
		line += "; **restart**"
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
	switch {
	case kind == "":
		return spec.Allowed
	case spec.Allowed == "":
		return kind
	}
	return kind + ": " + spec.Allowed
}

// WriteLegacy writes the table of keys of the original's file.
func WriteLegacy(w io.Writer, table []Setting) {
	fmt.Fprint(w, "\n| original | sets |\n|---|---|\n")
	for _, s := range table {
		sets := "`" + s.AliasOf + "`"
		if s.Doc != "" {
			sets += ". " + s.Doc
		}
		fmt.Fprintf(w, "| `%s` | %s |\n", s.Path, sets)
	}
}

// Schema is a JSON Schema, of draft 2020-12.
type Schema = map[string]any

// AnyOf takes what one of them takes.
func AnyOf(schemas ...Schema) Schema { return Schema{"anyOf": schemas} }

// anyCase is the regular expression, as JSON Schema has them, of words in any case.
func anyCase(words ...string) string {
	var b strings.Builder
	for i, word := range words {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, c := range word {
			if unicode.IsLetter(c) {
				b.WriteString("[" + string(unicode.ToLower(c)) + string(unicode.ToUpper(c)) + "]")
			} else {
				b.WriteString(regexp.QuoteMeta(string(c)))
			}
		}
	}
	return "^(" + b.String() + ")$"
}

// MappingSchema is a mapping with those keys, whose dots are mappings in it.
func MappingSchema(table []Setting) Schema {
	properties := Schema{}
	var required []string
	for _, name := range inside(table, "") {
		own, isSetting := find(table, name)
		var below []Setting
		for _, s := range table {
			if rest, ok := strings.CutPrefix(s.Path, name+"."); ok {
				s.Path = rest
				below = append(below, s)
			}
		}
		switch {
		case !isSetting:
			properties[name] = sectionSchema(below)
		case len(below) == 0:
			properties[name] = settingSchema(own)
		default:
			properties[name] = AnyOf(settingSchema(own), sectionSchema(below))
		}
		if own.Required {
			required = append(required, name)
		}
	}
	schema := Schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

// sectionSchema is a mapping whose keys may all be commented out.
func sectionSchema(table []Setting) Schema {
	schema := MappingSchema(table)
	schema["type"] = []string{"object", "null"}
	return schema
}

// settingSchema is the value's, and what editors show of it.
func settingSchema(s Setting) Schema {
	if s.Went() {
		return Schema{"description": "Went; " + s.Gone + s.Old + ".", "deprecated": true}
	}
	schema := maps.Clone(s.Value.Spec().Schema)
	if s.Doc != "" {
		schema["description"] = s.Doc
	}
	if s.AliasOf != "" && s.Doc == "" {
		schema["description"] = "Another form of " + s.AliasOf + "."
	}
	if text := s.Value.Text(); text != "" && s.Default == "" && s.AliasOf == "" && !s.Value.Spec().Nested {
		schema["default"] = defaultValue(schema, text)
	}
	if s.Legacy {
		schema["deprecated"] = true
	}
	return schema
}

// defaultValue is the text as JSON has it: a number or a boolean where the schema takes one.
func defaultValue(schema Schema, text string) any {
	kinds, _ := schema["type"].([]string)
	if len(kinds) > 0 && kinds[0] != "string" && json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

// ListOfMappings is a list of at most so many mappings with those keys. Each has at
// least some of them.
func ListOfMappings(members []Setting, most, least int) Spec {
	item := MappingSchema(members)
	item["minProperties"] = least
	return Spec{
		Type: "list of mappings", Allowed: "at most " + strconv.Itoa(most),
		Nested: true, Members: members, MemberPath: "[].",
		Schema: Schema{"type": []string{"array", "null"}, "maxItems": most, "items": item},
	}
}
