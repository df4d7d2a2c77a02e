package testkit

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// ReadFile returns the contents of a file.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	Must(t, err)
	return string(text)
}

// WriteFile creates a file, or replaces its contents.
func WriteFile(t testing.TB, name, text string, mode os.FileMode) {
	t.Helper()
	Must(t, os.WriteFile(name, []byte(text), mode))
}

// ReplaceFile replaces a file that a program may read at any moment. The program finds either the old text or
// the new one.
func ReplaceFile(t testing.TB, name, text string) {
	t.Helper()
	WriteFile(t, name+".new", text, 0o600)
	Must(t, os.Rename(name+".new", name))
}

// ShortDir makes a directory that is removed when the test ends. Unlike the directory of t.TempDir, it has a
// path that is short enough for sockets.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "test-")
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Must ends the test if there is an error. It is for steps that prepare a test.
func Must(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// SmallDisk mounts a file system of a few KiB until the end of the test. If that isn't possible, the test is
// skipped, unless it runs as root in CI.
func SmallDisk(t testing.TB, kib int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)); err != nil {
		if os.Getenv("CI") != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skipf("this test needs to mount a small disk: %v", err)
	}
	t.Cleanup(func() { Must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}
