package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// errInjected is what fails on purpose.
var errInjected = errors.New("injected")

// fakeMachine answers commands and requests, and keeps what was asked for.
type fakeMachine struct {
	ran    []string
	status int
	socket bool // systemd listens for the proxy
}

func (f *fakeMachine) Run(_ context.Context, argv ...string) (string, error) {
	if slices.Contains(argv, "--quiet") {
		if !f.socket {
			return "", errors.New("inactive")
		}
		return "", nil
	}
	f.ran = append(f.ran, strings.Join(argv, " "))
	return "", nil
}

func (f *fakeMachine) Probe(context.Context, Probe) (int, error) { return f.status, nil }

// tree is a directory with a plan for it: an edited file behind a link, a replaced one, new
// ones in new directories, a link and a permission.
func tree(t *testing.T) (root string, p Plan) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{"etc/ports.conf": "# ports\nListen 80\n", "etc/tempomat/tempomat.yaml": "# defaults\n", "etc/key.pem": "secret", "run/systemd/system/x": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(root, name) }
	group := groupName(uint32(os.Getgid()))
	p = Plan{
		Server: "apache2", Check: []string{"apache2ctl", "configtest"}, Config: at("etc/tempomat/tempomat.yaml"), Reread: true,
		Probes: []Probe{{Port: 80, Host: "a.example"}},
		Changes: []Change{
			{Path: at("etc/ports.conf"), Before: "# ports\nListen 80\n", After: "# ports\nListen 8080\n# more\n", Backup: at("etc/ports.conf" + backupEnd),
				Edits: []Edit{{Line: 2, Old: "Listen 80", New: []string{"Listen 8080", "# more"}}}},
			{Path: at("etc/new/deep/file"), New: true, After: "new\n"},
			{Path: at("etc/link"), New: true, Target: "new/deep/file"},
			{Path: at("etc/tempomat/tempomat.yaml"), Before: "# defaults\n", After: "listen: \":80\"\n", Backup: at("etc/tempomat/tempomat.yaml" + backupEnd)},
			{Path: at("etc/key.pem"), Access: &Access{Path: at("etc/key.pem"), Group: group, Mode: 0o640}, Was: &Access{Path: at("etc/key.pem"), Group: group, Mode: 0o600}},
		},
	}
	return root, p
}

// snapshot is every name below a directory with its mode and text.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			text, err = os.Readlink(name)
		} else if info.Mode().IsRegular() {
			b, e := os.ReadFile(name)
			text, err = string(b), e
		}
		all[name] = fmt.Sprint(info.Mode(), " ", text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newWorker(root string, f *fakeMachine) *worker {
	return &worker{place: Place{Root: root}, run: f, ask: f, out: io.Discard}
}

func journalOf(p Plan) *journal {
	return &journal{Server: p.Server, Check: p.Check, Config: p.Config, Changes: p.Changes, Before: p.Before, Reread: p.Reread, Systemd: true, Probes: p.Probes}
}

// TestAllOrNothing fails at each step, before it is done and after, and dies there, too:
// everything becomes as it was.
func TestAllOrNothing(t *testing.T) {
	_, p := tree(t)
	n := len(newWorker("", &fakeMachine{}).steps(journalOf(p), commands(p)))
	for i := range n {
		for _, how := range []string{"before", "after", "killed"} {
			t.Run(fmt.Sprint(i, " ", how), func(t *testing.T) {
				root, p := tree(t)
				before := snapshot(t, root)
				f := &fakeMachine{status: 200}
				w, j := newWorker(root, f), journalOf(p)
				steps := w.steps(j, commands(p))
				do := steps[i].do
				steps[i].do = func(ctx context.Context) error {
					if how == "after" {
						if err := do(ctx); err != nil {
							t.Error(err)
						}
					}
					return errInjected
				}
				if how != "killed" {
					if err := w.carryOut(t.Context(), j, steps); !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "as it was") {
						t.Error(err)
					}
				} else {
					for _, s := range steps[:i] {
						if err := s.do(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
					if err := newWorker(root, f).takeBack(t.Context()); err != nil { // another process
						t.Error(err)
					}
				}
				if after := snapshot(t, root); !maps.Equal(before, after) {
					t.Errorf("it was %v\nand is %v", before, after)
				}
			})
		}
	}
}

// TestApplyAndUndo: the commands come in the order in which nothing is broken, and back.
func TestApplyAndUndo(t *testing.T) {
	root, p := tree(t)
	before := snapshot(t, root)
	f := &fakeMachine{status: 200}
	w := newWorker(root, f)
	if err := w.apply(t.Context(), p, true); err != nil {
		t.Fatal(err)
	}
	want := "apache2ctl configtest; tempomat-proxy -check -config " + p.Config +
		"; systemctl daemon-reload; systemctl restart apache2; systemctl enable tempomat-proxy; systemctl restart tempomat-proxy"
	if got := strings.Join(f.ran, "; "); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	for _, c := range p.Changes[:4] {
		if text, err := os.ReadFile(c.Path); err != nil || c.After != "" && string(text) != c.After {
			t.Errorf("%s: %q, %v", c.Path, text, err)
		}
	}
	if info, err := os.Stat(p.Changes[4].Path); err != nil || info.Mode() != 0o640 {
		t.Error(info.Mode(), err)
	}
	f.ran = nil
	if err := w.takeBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = "systemctl stop tempomat-proxy; systemctl disable tempomat-proxy; systemctl daemon-reload; apache2ctl configtest; systemctl restart apache2"
	if got := strings.Join(f.ran, "; "); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if after := snapshot(t, root); !maps.Equal(before, after) {
		t.Errorf("it was %v\nand is %v", before, after)
	}
}

// TestUndoClosesSocket: a port that systemd listens at for the proxy is free before the web
// server starts anew.
func TestUndoClosesSocket(t *testing.T) {
	root, p := tree(t)
	f := &fakeMachine{status: 200}
	w := newWorker(root, f)
	if err := w.apply(t.Context(), p, true); err != nil {
		t.Fatal(err)
	}
	f.ran, f.socket = nil, true
	if err := w.takeBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(f.ran) < 2 || f.ran[0] != "systemctl disable --now tempomat-proxy.socket" || f.ran[1] != "systemctl stop tempomat-proxy" {
		t.Error(f.ran)
	}
}

// TestUndoKeepsWhatOthersWrote: lines that somebody added stay, settings are kept beside,
// and where setup's own lines are gone nothing is changed.
func TestUndoKeepsWhatOthersWrote(t *testing.T) {
	root, p := tree(t)
	w := newWorker(root, &fakeMachine{status: 200})
	if err := w.apply(t.Context(), p, true); err != nil {
		t.Fatal(err)
	}
	write := func(c Change, text string) {
		if err := os.WriteFile(c.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(p.Changes[0], "# ports\nListen 8081\n")
	changed := snapshot(t, root)
	if err := w.takeBack(t.Context()); err == nil || !strings.Contains(err.Error(), backupEnd) {
		t.Error(err)
	}
	if after := snapshot(t, root); !maps.Equal(changed, after) {
		t.Errorf("it was %v\nand is %v", changed, after)
	}
	write(p.Changes[0], "# mine\n# ports\nListen 8080\n# more\nListen 9000\n")
	write(p.Changes[3], "throttle: {mode: fair}\n")
	if err := w.takeBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		p.Changes[0].Path: "# mine\n# ports\nListen 80\nListen 9000\n",
		p.Changes[3].Path: "# defaults\n", p.Changes[3].Path + undoneEnd: "throttle: {mode: fair}\n",
	} {
		if text, err := os.ReadFile(name); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestApplyChangesNothingThatChanged: between the look and the change somebody was faster.
func TestApplyChangesNothingThatChanged(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"a file was edited": {"etc/ports.conf", "was changed meanwhile"},
		"a file is new":     {"etc/link", "exists"},
		"a former backup":   {"etc/ports.conf" + backupEnd, "would be lost"},
	} {
		t.Run(name, func(t *testing.T) {
			root, p := tree(t)
			if err := os.WriteFile(filepath.Join(root, c.file), []byte("somebody's\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, root)
			err := newWorker(root, &fakeMachine{status: 200}).apply(t.Context(), p, true)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
			if after := snapshot(t, root); !maps.Equal(before, after) {
				t.Errorf("%v\nit was %v\nand is %v", err, before, after)
			}
		})
	}
}
