package host

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestListenModeAndRemoval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "admin.sock")
	l, err := ListenUnix(t.Context(), path)
	testkit.Must(t, err)
	info, err := os.Lstat(path)
	testkit.Must(t, err)
	testkit.Same(t, fs.ModeSocket|0o660, info.Mode(), "mode")
	testkit.Must(t, l.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want none", err)
	}
}

func TestListenTakesOnlyADeadSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testkit.Must(t, err)
	dead.SetUnlinkOnClose(false)
	testkit.Must(t, dead.Close())
	alive, err := ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatalf("beside a dead socket: %v", err)
	}
	defer alive.Close()
	if _, err := ListenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process already answers on "+path) {
		t.Errorf("beside a live socket: %v", err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the live socket was taken away: %v", err)
	}
	_ = c.Close()
}

func TestListenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, []byte("precious"), 0o600))
	for path, want := range map[string]string{
		file:        "exists and is not a socket",
		file + "/x": "not a directory",
	} {
		l, err := ListenUnix(t.Context(), path)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q: no error", path)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, want %q", path, err, want)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("the file is %q, %v", got, err)
	}
}
