package testkit

import (
	"os"
	"os/exec"
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
