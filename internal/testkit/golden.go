package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Golden compares a text with the contents of a file. If update, a flag of the test, is true, Golden writes the
// file instead.
func Golden(t testing.TB, update bool, file, got string) {
	t.Helper()
	if update {
		Must(t, os.WriteFile(file, []byte(got), 0o644)) //nolint:gosec // a file of the repository
		return
	}
	if diff := cmp.Diff(ReadFile(t, file), got); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", filepath.Base(file), diff)
	}
}
