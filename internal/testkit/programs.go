package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Program returns the path of the first of some programs that is here, on the PATH or in
// /usr/sbin. Without any of them the test is skipped, but where CI runs it fails: nobody
// else would notice that it is never run.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	for _, name := range names {
		for _, dir := range []string{"", "/usr/sbin/"} {
			if path, err := exec.LookPath(dir + name); err == nil {
				return path
			}
		}
	}
	missing(t, "this test needs "+names[0]+", which is not here: make deps")
	return ""
}

// Root skips a test where it is not root who runs it, with the reason. CI has to be root,
// and the test fails there.
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

// Build builds programs of this module, with the arguments of go build, into a directory. It looks
// at each file that they are made of: go test remembers what a test has looked at, and so does
// not take the result of other programs from its cache.
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
