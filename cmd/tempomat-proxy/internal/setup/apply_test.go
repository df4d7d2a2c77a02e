package setup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/host"
)

// errInjected is a deliberate failure.
var errInjected = errors.New("injected")

// fakeMachine answers commands and requests, and records them.
type fakeMachine struct {
	ran    []string
	socket bool // systemd listens for the proxy
	// listens are the sockets on the public port.
	listens []host.Listening
	ended   []int
	broken  error // result of the server's check
}

// Terminate ends the process that listens.
func (f *fakeMachine) Terminate(pid int) error {
	f.ended = append(f.ended, pid)
	f.listens = slices.DeleteFunc(f.listens, func(s host.Listening) bool { return s.Process == pid })
	return nil
}

func (f *fakeMachine) Run(_ context.Context, argv ...string) (string, error) {
	if slices.Contains(argv, "--quiet") {
		if !f.socket {
			return "", errors.New("inactive")
		}
		return "", nil
	}
	f.ran = append(f.ran, strings.Join(argv, " "))
	if argv[len(argv)-1] == "configtest" {
		return "", f.broken
	}
	return "", nil
}

// tree makes a directory and a plan that changes it: an edited file behind a link, a replaced file, new files in new
// directories, a link and a permission.
func tree(t *testing.T) (root string, p Plan) {
	t.Helper()
	root = t.TempDir()
	for name, text := range map[string]string{"etc/ports.conf": "# ports\nListen 80\n", "etc/tempomat/tempomat.yaml": "# defaults\n", "etc/key.pem": "secret", "run/systemd/system/x": ""} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o750))
		testkit.WriteFile(t, filepath.Join(root, name), text, 0o600)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	group := groupName(uint32(os.Getgid()))
	p.journal = journal{
		Systemd: true, Server: "apache2", Check: []string{"apache2ctl", "configtest"}, Config: at("etc/tempomat/tempomat.yaml"), Reread: true,
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

// snapshot returns every name below a directory with its mode and text.
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
	testkit.Must(t, err)
	return all
}

func newWorker(root string, f *fakeMachine) *worker {
	return &worker{
		place: Place{Root: root}, run: f, out: io.Discard, sockets: func(...int) []host.Listening { return f.listens },
		ask: func(context.Context, Probe) (int, error) { return 200, nil },
	}
}

// TestAllOrNothing makes setup fail before and after each step, or kills it there. Everything is restored afterwards.
func TestAllOrNothing(t *testing.T) {
	_, p := tree(t)
	n := len(newWorker("", &fakeMachine{}).steps(&p.journal))
	for i := range n {
		for _, how := range []string{"before", "after", "killed"} {
			t.Run(fmt.Sprint(i, " ", how), func(t *testing.T) {
				root, p := tree(t)
				before := snapshot(t, root)
				f := &fakeMachine{}
				w, j := newWorker(root, f), &p.journal
				steps := w.steps(j)
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
					if err := w.carryOut(t.Context(), j, steps); !errors.Is(err, errInjected) || !strings.Contains(err.Error(), "all changes were undone") {
						t.Error(err)
					}
				} else {
					for _, s := range steps[:i] {
						testkit.Must(t, s.do(t.Context()))
					}
					if err := newWorker(root, f).takeBack(t.Context()); err != nil { // in another process
						t.Error(err)
					}
				}
				testkit.Same(t, before, snapshot(t, root), "the files")
			})
		}
	}
}

// TestApplyAndUndo: in both directions, the commands run in an order that breaks nothing.
func TestApplyAndUndo(t *testing.T) {
	root, p := tree(t)
	before := snapshot(t, root)
	f := &fakeMachine{}
	w := newWorker(root, f)
	testkit.Must(t, w.apply(t.Context(), p))
	want := "apache2ctl configtest; systemctl daemon-reload; tempomat-proxy -check -config " + p.Config +
		"; systemctl enable tempomat-proxy; systemctl reload-or-restart apache2; systemctl restart tempomat-proxy"
	testkit.Same(t, want, strings.Join(f.ran, "; "), "commands of setup")
	for _, c := range p.Changes[:4] {
		if text, err := os.ReadFile(c.Path); err != nil || c.After != "" && string(text) != c.After {
			t.Errorf("%s: %q, %v", c.Path, text, err)
		}
	}
	if info, err := os.Stat(p.Changes[4].Path); err != nil || info.Mode() != 0o640 {
		t.Error(info.Mode(), err)
	}
	f.ran = nil
	testkit.Must(t, w.takeBack(t.Context()))
	want = "apache2ctl configtest; systemctl daemon-reload; systemctl disable tempomat-proxy; " + interrupt + "; systemctl --no-block stop tempomat-proxy; systemctl reload-or-restart apache2"
	testkit.Same(t, want, strings.Join(f.ran, "; "), "commands of -undo")
	testkit.Same(t, before, snapshot(t, root), "the files")

	testkit.Must(t, w.apply(t.Context(), p))
	f.ran, f.socket = nil, true
	testkit.Must(t, w.takeBack(t.Context()))
	ran := strings.Join(f.ran, "; ")
	if socket, server := strings.Index(ran, "disable --now tempomat-proxy.socket"), strings.Index(ran, reload); socket < 0 || server < socket {
		t.Errorf("systemd still listens for the proxy as the web server starts: %s", ran)
	}
}

// TestUndoKeepsWhatOthersWrote: lines that others added stay, and other settings are kept next to the file. If setup's
// own lines are missing, -undo reports them and undoes the rest.
func TestUndoKeepsWhatOthersWrote(t *testing.T) {
	for name, c := range map[string]struct{ now, then, told string }{
		"lines around": {"# mine\n# ports\nListen 8080\n# more\nListen 9000\n", "# mine\n# ports\nListen 80\nListen 9000\n", ""},
		"edited":       {"# ports\nListen 8081\n", "# ports\nListen 8081\n", `ports.conf:2: setup's line "Listen 8080" is missing`},
		"gone":         {"# ports\n# none\n", "# ports\n# none\n", `ports.conf:2: setup's line "Listen 8080" is missing. Before setup, the line was "Listen 80"`},
		"put back":     {"# ports\n\nListen 80\n", "# ports\n\nListen 80\n", ""},
		"two others":   {"# ports\nListen 1\nListen 2\n", "# ports\nListen 1\nListen 2\n", "is missing"},
		"deleted":      {"", "", "ports.conf no longer exists; its text"},
	} {
		t.Run(name, func(t *testing.T) {
			root, p := tree(t)
			w := newWorker(root, &fakeMachine{})
			var said strings.Builder
			w.out = &said
			testkit.Must(t, w.apply(t.Context(), p))
			testkit.WriteFile(t, p.Changes[3].Path, "throttle: {mode: fair}\n", 0o600)
			if testkit.WriteFile(t, p.Changes[0].Path, c.now, 0o600); c.now == "" {
				testkit.Must(t, os.Remove(p.Changes[0].Path))
			}
			said.Reset()
			testkit.Must(t, w.takeBack(t.Context()))
			for name, want := range map[string]string{
				p.Changes[0].Path: c.then,
				p.Changes[3].Path: "# defaults\n", p.Changes[3].Path + undoneEnd: "throttle: {mode: fair}\n",
			} {
				if text, _ := os.ReadFile(name); string(text) != want {
					t.Errorf("%s: %q, not %q", name, text, want)
				}
			}
			if c.told != "" && (!strings.Contains(said.String(), c.told) || !strings.Contains(said.String(), backupEnd)) {
				t.Error(said.String())
			}
			testkit.Same(t, c.told != "", exists(p.Changes[0].Backup), "the earlier text stays if, and only if, it is needed")
			if exists(journalFile(w.place)) {
				t.Error("setup takes itself for not taken back")
			}
		})
	}
}

// TestTakeBackFindsEqualLines: edits are reverted in a file that was edited later, even if setup turned different lines
// into equal ones.
func TestTakeBackFindsEqualLines(t *testing.T) {
	const a, b = "<VirtualHost *:80>\n\tServerName a\n</VirtualHost>\n", "<VirtualHost _default_:80>\n\tServerName b\n</VirtualHost>\n"
	edits := []Edit{{1, "<VirtualHost *:80>", []string{"<VirtualHost *>"}}, {4, "<VirtualHost _default_:80>", []string{"<VirtualHost *>"}},
		{6, "</VirtualHost>", []string{"\tRewriteEngine on", "</VirtualHost>"}}}
	after := applyEdits(a+b, edits)
	has := func(text string) string {
		return strings.ReplaceAll(strings.ReplaceAll(text, "<VirtualHost *:80>", "<VirtualHost *>"), "<VirtualHost _default_:80>", "<VirtualHost *>")
	}
	a2, b2 := has(a), strings.Replace(has(b), "</V", "\tRewriteEngine on\n</V", 1)
	if after != a2+b2 {
		t.Fatalf("%q", after)
	}
	c, c2 := "<VirtualHost *>\n\tServerName c\n</VirtualHost>\n", ""
	for now, want := range map[string]string{
		a2 + b2:              a + b,
		"# mine\n" + a2 + b2: "# mine\n" + a + b,
		a2 + "\n" + c + b2:   a + "\n" + c + b,
		c + a2 + b2:          c + a + b,
		a2 + b2 + c + c2:     a + b + c,
		b2:                   b,
		a2:                   a,
		strings.Replace(a2, "a\n", "a\n\tServerAlias x\n", 1) + b2: strings.Replace(a, "a\n", "a\n\tServerAlias x\n", 1) + b,
	} {
		if got, _ := takeBack(after, now, edits); got != want {
			t.Errorf("of\n%s\ncame\n%s\nnot\n%s", now, got, want)
		}
	}
}

// TestUndoSwitchesOver: even without systemd, the proxy releases the port and the server takes it over. Otherwise, -undo
// reports the problem and changes nothing that runs.
func TestUndoSwitchesOver(t *testing.T) {
	for name, c := range map[string]struct {
		listens []host.Listening
		check   error
		ended   []int
		ran     string // the last command
		says    string
	}{
		"both run":          {listens: []host.Listening{{Program: unitName, Process: 7}, {Program: "apache2", Process: 8}}, ended: []int{7}, ran: "apache2ctl graceful", says: "Done: all changes are undone"},
		"no process":        {ran: "apache2ctl configtest", says: "apache2 is not running"},
		"a broken file":     {listens: []host.Listening{{Program: unitName, Process: 7}, {Program: "apache2", Process: 8}}, check: errInjected, ran: "apache2ctl configtest", says: "so the site is served as before"},
		"only a web server": {listens: []host.Listening{{Program: "apache2", Process: 8}}, ran: "apache2ctl graceful", says: "Done: all changes are undone"},
	} {
		t.Run(name, func(t *testing.T) {
			root, p := tree(t)
			p.Systemd = false
			f := &fakeMachine{}
			w := newWorker(root, f)
			testkit.Must(t, w.apply(t.Context(), p))
			var said strings.Builder
			w.out = &said
			f.ran, f.listens, f.broken = nil, c.listens, c.check
			err := w.takeBack(t.Context())
			text := fmt.Sprint(said.String(), err)
			if (err != nil) != (c.check != nil) || !strings.Contains(text, c.says) || (err != nil) == strings.Contains(text, "Done") {
				t.Error(text)
			}
			config, err := os.ReadFile(p.Config)
			if kept := string(config) == p.Changes[3].After; err != nil || kept != (c.check != nil) {
				t.Errorf("the proxy's own file is kept: %v, %v", kept, err)
			}
			if !slices.Equal(f.ended, c.ended) || f.ran[len(f.ran)-1] != c.ran {
				t.Errorf("ended %v, ran %q", f.ended, f.ran)
			}
		})
	}
}

// TestApplyChangesNothingThatChanged: if another program makes a change after the plan is made, setup changes nothing.
func TestApplyChangesNothingThatChanged(t *testing.T) {
	for name, c := range map[string]struct{ file, says string }{
		"a file was edited": {"etc/ports.conf", "was changed by another program"},
		"a file is new":     {"etc/link", "exists"},
		"a former backup":   {"etc/ports.conf" + backupEnd, "would be overwritten"},
	} {
		t.Run(name, func(t *testing.T) {
			root, p := tree(t)
			testkit.WriteFile(t, filepath.Join(root, c.file), "somebody's\n", 0o600)
			before := snapshot(t, root)
			err := newWorker(root, &fakeMachine{}).apply(t.Context(), p)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Error(err)
			}
			testkit.Same(t, before, snapshot(t, root), "the files")
		})
	}
}
