package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Program returns the path of the first of the given programs that exists, on the PATH or in /usr/sbin. If none
// exists, the test is skipped. In CI, the test fails instead, because otherwise it might never run anywhere.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, dir := range []string{"", "/usr/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path
			}
		}
	}
	missing(t, "this test needs "+names[0]+", which isn't installed: run make deps")
	return ""
}

// Root skips a test, with the reason, if the user isn't root. In CI, which must run as root, the test fails
// instead.
func Root(t testing.TB, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "this test needs root: "+why)
	}
}

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Build builds programs of this module into a directory. args are further arguments for go build. Build also
// calls os.Stat for each source file, because go test records the files that a test accesses, and runs a cached
// test again if one of them has changed.
func Build(dir string, args []string, packages ...string) error {
	build := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", dir + "/"}, args...), packages...)...) //nolint:gosec,noctx // a test's own
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	const ours = `{{if .Module}}{{if .Module.Main}}{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	files, err := exec.Command("go", append([]string{"list", "-deps", "-f", ours}, packages...)...).Output() //nolint:gosec,noctx // a test's own
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	for file := range strings.FieldsSeq(string(files)) {
		if _, err := os.Stat(file); err != nil {
			return err
		}
	}
	return nil
}
