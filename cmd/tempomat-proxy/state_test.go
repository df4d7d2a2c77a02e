package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// note is a memory of one thing.
type note struct{ text string }

func (n *note) AppendBinary(b []byte) ([]byte, error) { return append(b, n.text...), nil }
func (n *note) UnmarshalBinary(data []byte) error     { n.text = string(data); return nil }

func noted(path, text string) (*stateFile, *note, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	n := &note{text}
	return newState(path, map[string]memory{"note": n}, zap.New(core)), n, logs
}

// besides is where a file is until it takes its place.
func besides(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// TestStateIsReplaced whatever lies in its place, and beside it.
func TestStateIsReplaced(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	precious := filepath.Join(dir, "precious")
	writeFile(t, precious, "precious")
	for name, lies := range map[string]func(path string) error{
		"nothing":        func(string) error { return nil },
		"a link":         func(path string) error { return os.Symlink(precious, path) },
		"a link beside":  func(path string) error { return os.Symlink(precious, besides(path)) },
		"one that ended": func(path string) error { return os.WriteFile(besides(path), []byte("half"), 0o400) },
		"a hard link":    func(path string) error { return os.Link(precious, besides(path)) },
	} {
		path := filepath.Join(dir, name, "state")
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := lies(path); err != nil {
			t.Fatal(err)
		}
		f, _, _ := noted(path, "what there is to remember")
		if err := f.save(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		back, n, logs := noted(path, "")
		if back.load(); n.text != "what there is to remember" || logs.Len() > 0 {
			t.Errorf("%s: it remembers %q, %v", name, n.text, logs.All())
		}
		if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
			t.Errorf("%s: %v is left, %v", name, entries, err)
		}
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
		t.Errorf("the file that links led to is %q, %v", text, err)
	}
}

// TestStateIsNotSaved leaves nothing beside the file, and the file as it was.
func TestStateIsNotSaved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "state")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	f, _, _ := noted(path, "x")
	if err := f.save(); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Lstat(besides(path)); err == nil {
		t.Error("something is left behind")
	}
}

// TestStateIsBelieved only of a file that nobody else can have written.
func TestStateIsBelieved(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	good := filepath.Join(dir, "good")
	f, _, _ := noted(good, "x")
	if err := f.save(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"a link":               func(path string) error { return os.Symlink(good, path) },
		"a pipe":               func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory":          func(path string) error { return os.Mkdir(path, 0o700) },
		"too large":            func(path string) error { return makeHole(path) },
		"written by everybody": func(path string) error { return writeWithMode(path, text, 0o666) },
		"written by a group":   func(path string) error { return writeWithMode(path, text, 0o620) },
		"of another form":      func(path string) error { return writeWithMode(path, []byte(`{"note": "ZnJvbSBiZWZvcmU="}`), 0o600) },
		"damaged":              func(path string) error { return writeWithMode(path, text[:len(text)-3], 0o600) },
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		f, n, logs := noted(path, "")
		if f.load(); n.text != "" || logs.Len() != 1 {
			t.Errorf("%s: it remembers %q, and says %v", name, n.text, logs.All())
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(good, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		f, n, logs := noted(good, "")
		if f.load(); n.text != "" || logs.Len() != 1 {
			t.Errorf("of another user: it remembers %q, and says %v", n.text, logs.All())
		}
	}
}

func writeWithMode(path string, text []byte, mode os.FileMode) error {
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

func makeHole(path string) error {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(path, largestState+1)
}

// TestStateWithoutDirectory: a start says that nothing can be saved, and where.
func TestStateWithoutDirectory(t *testing.T) {
	dir := tempDir(t)
	for path, warns := range map[string]bool{filepath.Join(dir, "state"): false, filepath.Join(dir, "missing", "state"): true, "": false} {
		f, _, logs := noted(path, "")
		if f.complain(); (logs.Len() > 0) != warns {
			t.Errorf("%q: %v", path, logs.All())
		}
		if warns && (logs.All()[0].ContextMap()["directory"] != filepath.Dir(path) || !strings.Contains(logs.All()[0].Message, "TEMPOMAT_STATE")) {
			t.Error(logs.All())
		}
	}
}
