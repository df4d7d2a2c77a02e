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

// scratch is the directory of all tests in the package. It also contains sockets, whose paths must be short.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "tempomat-") })

func TestMain(m *testing.M) {
	// Once a successor runs, its parent has ended. This call makes it a child of this process.
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
	testkit.Must(t, err)
	dir, err := os.MkdirTemp(root, "")
	testkit.Must(t, err)
	return dir
}

// builtVersion is the version with which the programs are built.
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

// program returns the path of one of the programs.
func program(t *testing.T, name string) string {
	t.Helper()
	bin, err := programs()
	testkit.Must(t, err)
	return filepath.Join(bin, name)
}
