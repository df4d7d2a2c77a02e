package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// compileSchema compiles what "tempomat-proxy config schema" prints.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	var b bytes.Buffer
	if err := Schema(&b); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&b)
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft4) // so that ours is in force by its own word
	if err := compiler.AddResource("tempomat.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("tempomat.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if schema.DraftVersion != 2020 {
		t.Fatalf("a schema of draft %d", schema.DraftVersion)
	}
	return schema
}

// asJSON is YAML as an editor hands it to the schema.
func asJSON(data []byte) (any, error) {
	var doc any
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

// TestSchemaTakesWhatIsSound: each configuration that the repository ships or tests, and
// the defaults.
func TestSchemaTakesWhatIsSound(t *testing.T) {
	schema := compileSchema(t)
	files := append(configurations(t, "good"), "../deploy/tempomat.yaml", "../deploy/compose/tempomat.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := asJSON(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, s := range canonical(newDraft(Default())) {
		if s.HasVariable() {
			if err := schema.Validate(nested(s.Path, s.Value.Text())); err != nil {
				t.Errorf("the default of %s, %s: %v", s.Path, s.Value.Text(), err)
			}
		}
	}
}

// nested is the mapping that has text at a dotted path.
func nested(path, text string) any {
	name, rest, more := strings.Cut(path, ".")
	if more {
		return map[string]any{name: nested(rest, text)}
	}
	return map[string]any{name: text}
}

// TestSchemaRefusesWhatItCan: faulty files, but for those whose faults no schema can
// tell.
func TestSchemaRefusesWhatItCan(t *testing.T) {
	schema := compileSchema(t)
	beyond := []string{
		// what keys say together
		"admin-web.yaml", "admin.yaml", "backend-admin.yaml", "backend-itself-original.json", "backend-itself.yaml", "coordination-gossip.yaml",
		"coordination-smockron.yaml", "given-twice.yaml", "redis-both.yaml", "redis-missing.yaml", "redis-scripts.yaml",
		"redis-servers.yaml", "tls-nobody.yaml", "tls-twice.yaml", "too-many-classes.yaml",
		// what a reader of YAML has resolved
		"alias.yaml", "documents.yaml", "merge.yaml",
		// members of a list in one text; an empty one, as the environment may fill it; a port's range
		"errorpages-none.yaml", "listen-blank.yaml", "listen-empty.yaml", "listen-long.yaml", "trusted-proxies-text.yaml", "backend-port.yaml",
		// how a text has to be, and what a built-in class may not
		"admin-tcp.yaml", "admin-web-form.yaml", "backend-no-scheme.yaml", "backend-path.yaml", "backend-query.yaml", "backend-unix.yaml",
		"backend-userinfo.yaml", "errorpages.yaml", "gossip.yaml", "graphite-original.yaml", "graphite.yaml", "own-class-header.yaml", "redis.yaml", "slash32-off.yaml",
	}
	for _, file := range configurations(t, "bad") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := asJSON(data)
		if err != nil {
			continue // no YAML, or none that JSON can hold
		}
		told := schema.Validate(doc) != nil
		if name := filepath.Base(file); told == slices.Contains(beyond, name) {
			t.Errorf("%s: refused: %t", name, told)
		}
	}
}
