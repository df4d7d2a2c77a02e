package host

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestSetMode gives sockets their mode, and nothing else.
func TestSetMode(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for link, target := range map[string]string{"link": "file", "other": "socket"} {
		if err := os.Symlink(at(target), at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(at("socket"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"file": false, "link": false, "other": false, "none": false, "socket": true} {
		if err := setMode(at(name)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]os.FileMode{"file": 0o600, "socket": socketMode} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v", name, info.Mode(), want)
		}
	}
}
