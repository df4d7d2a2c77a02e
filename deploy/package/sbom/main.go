// Command sbom writes the bill of materials of programs, in the form of CycloneDX: the
// modules that the linker noted in them.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the version of the programs")
	at := flag.Int64("time", 0, "when they were made, in `seconds` since 1970")
	flag.Parse()
	if err := write(os.Stdout, *version, time.Unix(*at, 0), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(w io.Writer, version string, at time.Time, programs []string) error {
	modules := map[string]debug.Module{}
	var names []string
	toolchain := ""
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		names = append(names, filepath.Base(path))
		toolchain = info.GoVersion
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = *m
		}
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: at.UTC().Format(time.RFC3339),
		Component: &cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: "tempomat", Name: strings.Join(names, ", "), Version: version},
	}
	bom.Components = &[]cdx.Component{}
	std := strings.TrimPrefix(toolchain, "go")
	add(bom, "std", std, "")
	for _, m := range sorted(modules) {
		add(bom, m.Path, m.Version, m.Sum)
	}
	e := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	return e.SetPretty(true).Encode(bom)
}

func sorted(modules map[string]debug.Module) (all []debug.Module) {
	for _, m := range modules {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b debug.Module) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// add notes a module. Its sum, which is Go's own and of no kind that CycloneDX knows, is a
// property.
func add(bom *cdx.BOM, path, version, sum string) {
	purl := "pkg:golang/" + path + "@" + version
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	*bom.Components = append(*bom.Components, c)
}
