// Command schemas makes of Kubernetes' OpenAPI description, on standard input, a JSON schema
// for each kind, named as kubeconform looks for them: schemas DIRECTORY.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// node is a schema, or a part of one.
type node = map[string]any

func main() {
	if err := run(os.Stdin, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(r io.Reader, dir string) error {
	var api struct{ Definitions map[string]node }
	if err := json.NewDecoder(r).Decode(&api); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil { //nolint:gosec // an argument of who runs it
		return err
	}
	for name, d := range api.Definitions {
		strict(d)
		if name == "io.k8s.apimachinery.pkg.util.intstr.IntOrString" || name == "io.k8s.apimachinery.pkg.api.resource.Quantity" {
			d["type"] = []string{"string", "integer", "number"}
			delete(d, "format")
		}
	}
	all := filepath.Join(dir, "definitions.json")
	if err := write(all, node{"definitions": api.Definitions}); err != nil {
		return err
	}
	for name, d := range api.Definitions {
		kinds, _ := d["x-kubernetes-group-version-kind"].([]any)
		for _, k := range kinds {
			gvk := k.(node)
			file := strings.ToLower(gvk["kind"].(string))
			if group := gvk["group"].(string); group != "" {
				file += "-" + strings.Split(group, ".")[0]
			}
			ref := node{"$ref": "file://" + all + "#/definitions/" + name}
			if err := write(filepath.Join(dir, file+"-"+gvk["version"].(string)+".json"), ref); err != nil {
				return err
			}
		}
	}
	return nil
}

// strict allows objects no field that they do not have.
func strict(d node) {
	if p, has := d["properties"]; has {
		if _, open := d["additionalProperties"]; !open && len(p.(node)) > 0 {
			d["additionalProperties"] = false
		}
	}
}

func write(file string, n node) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600) //nolint:gosec // likewise
}
