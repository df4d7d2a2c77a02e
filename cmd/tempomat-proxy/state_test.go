package main

import (
	"bytes"
	"encoding/gob"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
)

// note is a memory that contains one text.
type note struct{ text string }

func (n *note) AppendBinary(b []byte) ([]byte, error) { return append(b, n.text...), nil }
func (n *note) UnmarshalBinary(data []byte) error     { n.text = string(data); return nil }

func noted(path, text string) (*stateFile, *note, *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.WarnLevel)
	n := &note{text}
	return &stateFile{path: path, parts: map[string]memory{"note": n}, log: zap.New(core)}, n, logs
}

// besides returns the path of the temporary file that will replace a file.
func besides(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// TestStateIsReplaced: the state can be saved, whatever is at the file's path or next to it.
func TestStateIsReplaced(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	precious := filepath.Join(dir, "precious")
	testkit.ReplaceFile(t, precious, "precious")
	for name, lies := range map[string]func(path string) error{
		"nothing":        func(string) error { return nil },
		"a link":         func(path string) error { return os.Symlink(precious, path) },
		"a link beside":  func(path string) error { return os.Symlink(precious, besides(path)) },
		"one that ended": func(path string) error { return os.WriteFile(besides(path), []byte("half"), 0o400) },
		"a hard link":    func(path string) error { return os.Link(precious, besides(path)) },
	} {
		path := filepath.Join(dir, name, "state")
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o750))
		testkit.Must(t, lies(path))
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

// TestSavesAtOnce: a handover and the timer may save the state at the same moment.
func TestSavesAtOnce(t *testing.T) {
	t.Parallel()
	f, _, _ := noted(filepath.Join(tempDir(t), "state"), strings.Repeat("x", 1<<20))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := f.save(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestStateIsBelieved: the file is used only if no other user could have written it.
func TestStateIsBelieved(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	good := filepath.Join(dir, "good")
	f, _, _ := noted(good, "x")
	testkit.Must(t, f.save())
	text := []byte(testkit.ReadFile(t, good))
	for name, make := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink(good, path) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"too large": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, largestState+1))
		},
		"written by everybody": func(path string) error { return writeWithMode(path, text, 0o666) },
		"written by a group":   func(path string) error { return writeWithMode(path, text, 0o620) },
		"of another form":      func(path string) error { return writeWithMode(path, []byte(`{"note": "ZnJvbSBiZWZvcmU="}`), 0o600) },
		"cut off":              func(path string) error { return writeWithMode(path, text[:len(text)-1], 0o600) },
		"of another version": func(path string) error {
			return writeSaved(path, saved{Version: 1, Parts: map[string][]byte{"note": {1}}})
		},
	} {
		path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		testkit.Must(t, make(path))
		f, n, logs := noted(path, "")
		if f.load(); n.text != "" || logs.Len() != 1 {
			t.Errorf("%s: it remembers %q, and says %v", name, n.text, logs.All())
		}
	}
	if os.Geteuid() == 0 {
		testkit.Must(t, os.Chown(good, 65534, 65534))
		f, n, logs := noted(good, "")
		if f.load(); n.text != "" || logs.Len() != 1 {
			t.Errorf("of another user: it remembers %q, and says %v", n.text, logs.All())
		}
	}
}

func writeWithMode(path string, text []byte, mode os.FileMode) error {
	return errors.Join(os.WriteFile(path, text, 0o600), os.Chmod(path, mode))
}

func writeSaved(path string, s saved) error {
	var text bytes.Buffer
	return errors.Join(gob.NewEncoder(&text).Encode(&s), os.WriteFile(path, text.Bytes(), 0o600))
}

// TestStateWithoutDirectory: the program makes the state's directory at the start, or reports that it can't, and names it.
func TestStateWithoutDirectory(t *testing.T) {
	dir := tempDir(t)
	for path, warns := range map[string]bool{filepath.Join(dir, "new", "state"): false, filepath.Join(os.Args[0], "state"): true, "": false} {
		f, _, logs := noted(path, "")
		if f.complain(); (logs.Len() > 0) != warns {
			t.Errorf("%q: %v", path, logs.All())
		}
		if warns && (logs.All()[0].ContextMap()["directory"] != filepath.Dir(path) || !strings.Contains(logs.All()[0].Message, "TEMPOMAT_STATE")) {
			t.Error(logs.All())
		}
	}
}
