package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tempomat/internal/testkit"
)

// scratch is where all tests of the package keep their files. Sockets are in
// it, whose paths have to be short.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "tempomat-") })

// TestMain has the test's own binary write a log where it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv(writerVariable) != "" {
		writeForever(writtenFile)
	}
	// The successors of a process are nobody's children once they run: this one's, with that.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if dir, err := scratch(); err == nil {
			_ = os.RemoveAll(dir)
		}
		os.Exit(status)
	}))
}

// tempDir makes a directory with a short path.
func tempDir(t *testing.T) string {
	t.Helper()
	root, err := scratch()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(root, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// builtVersion is what the programs are told to be.
const builtVersion = "v1.2.3-test"

// programs builds all programs once and returns their directory.
var programs = sync.OnceValues(func() (string, error) {
	root, err := scratch()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	return bin, testkit.Build(bin, []string{"-ldflags", "-w -X main.version=" + builtVersion}, "tempomat/cmd/tempomat-proxy", "tempomat/cmd/tempomat-doctor", "tempomat/cmd/tempomat-master")
})

// program returns the path of one of them.
func program(t *testing.T, name string) string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(bin, name)
}
