package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"tempomat/cmd/internal/daemon"
)

// journal is what setup did, kept for undo. It is written before the first change, so a setup
// that was killed can also be undone.
type journal struct {
	Systemd bool     // systemd runs here
	Server  string   // the unit of the web server: apache2 or nginx
	Check   []string // the command that checks the server's configuration
	Config  string   // the path of tempomat's configuration
	Changes []Change
	Probes  []Probe // what has to answer afterwards as it did before
	Before  Service // how the proxy's unit was
	Reread  bool    // systemd has to read its units again
	// Directories are those that setup made, outermost first.
	Directories []string
}

// serverFile reports whether a change is of the web server's files, and not of what the proxy
// needs: its configuration, its unit, and access to keys.
func (j *journal) serverFile(c Change) bool {
	return c.Access == nil && c.Path != j.Config && !strings.Contains(c.Path, "/"+unitName+".service.d/")
}

// ports are those that the proxy took over.
func (j *journal) ports() (ports []int) {
	for _, p := range j.Probes {
		ports = append(ports, p.Port)
	}
	return ports
}

// public is the port that was taken over.
func (j *journal) public() int {
	if len(j.Probes) == 0 {
		return 0
	}
	return j.Probes[0].Port
}

// inner is the address on the loopback that the web server moved to.
func (j *journal) inner() string {
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
	for _, c := range j.Changes {
		for _, e := range c.Edits {
			if found := address.FindString(strings.Join(e.New, "\n")); found != "" {
				return found
			}
		}
	}
	return ""
}

// checks are the commands that check the changed files before any server uses them. The proxy's
// asks systemd in which groups the unit is.
func (j *journal) checks() [][]string {
	list := [][]string{j.Check}
	if j.Systemd && j.Reread {
		list = append(list, []string{"systemctl", "daemon-reload"})
	}
	return append(list, []string{unitName, "-check", "-config", j.Config})
}

// switching are the commands of systemd that have the servers run as the files say; without
// it there are none.
func (j *journal) switching() [][]string {
	if !j.Systemd {
		return nil
	}
	return [][]string{{"systemctl", "enable", unitName}, {"systemctl", reload, j.Server}, {"systemctl", "restart", unitName}}
}

// journalName is its name, in addition to the configuration.
const journalName = "setup.json"

func journalFile(p Place) string { return p.Root + "/etc/tempomat/" + journalName }

func (j *journal) save(name string) error {
	text, err := json.MarshalIndent(j, "", "\t")
	if err != nil {
		return err
	}
	return replaceFile(name, string(text), 0o600, daemon.Keep, daemon.Keep)
}

func loadJournal(name string) (*journal, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	j := new(journal)
	if err := json.Unmarshal(text, j); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return j, nil
}

// missingDirectories are the directories of a file that are not there, outermost first.
func missingDirectories(name string) (list []string) {
	for dir := filepath.Dir(name); !exists(dir); dir = filepath.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}

// replaceFile puts a text in the place of a file at once.
func replaceFile(name, text string, mode os.FileMode, uid, gid int) error {
	return daemon.ReplaceFile(name, mode, uid, gid, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// rewrite puts a text into a file, and gives it the owner and mode of another one, or of
// that file itself.
func rewrite(name, text, like string) error {
	info, err := os.Lstat(like)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !ok {
		return fmt.Errorf("%s is no plain file", like)
	}
	return replaceFile(name, text, info.Mode().Perm(), int(s.Uid), int(s.Gid))
}

// ready reports whether a change can be made: all is as it was when the plan was made.
func ready(c Change) error {
	if c.Access != nil {
		_, err := groupNumber(c.Access.Group)
		return err
	}
	if c.New {
		return absent(c.Path)
	}
	now, err := os.ReadFile(c.Path)
	if err != nil {
		return err
	}
	if string(now) != c.Before {
		return fmt.Errorf("%s was changed by another program: run setup again", c.Path)
	}
	return absent(c.Backup)
}

func absent(name string) error {
	if _, err := os.Lstat(name); !os.IsNotExist(err) {
		return fmt.Errorf("%s exists, and would be lost: move it away", name)
	}
	return nil
}

// put makes one change that is ready.
func put(c Change) error {
	switch {
	case c.Access != nil:
		return setAccess(*c.Access)
	case c.Target != "":
		return os.Symlink(c.Target, c.Path)
	case c.New:
		return replaceFile(c.Path, c.After, 0o644, daemon.Keep, daemon.Keep)
	}
	if err := rewrite(c.Backup, c.Before, c.Path); err != nil {
		return err
	}
	return rewrite(c.Path, c.After, c.Path)
}

// setAccess changes group and mode.
func setAccess(a Access) error {
	group, err := groupNumber(a.Group)
	if err != nil {
		return fmt.Errorf("there is no group %s", a.Group)
	}
	if err := os.Lchown(a.Path, -1, group); err != nil {
		return err
	}
	return os.Chmod(a.Path, os.FileMode(a.Mode))
}

// undoneEnd marks the copy of a file of setup's that was edited later.
const undoneEnd = ".undone"

// restore reverts one change, made or not, and returns what a person should know about it: an
// edited file that was setup's as a whole is kept next to it, and lines that are missing in an
// edited file are named.
func restore(c Change) (told []string, err error) {
	if c.Access != nil {
		err := setAccess(*c.Was)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // it needs no access any more
		}
		return nil, err
	}
	if len(c.Edits) > 0 {
		return restoreLines(c)
	}
	if c.Target == "" {
		if told, err = keepForeign(c); err != nil {
			return nil, err
		}
	}
	if c.New {
		return told, remove(c.Path)
	}
	like := c.Path
	if !exists(like) { // it was deleted
		like = c.Backup
	}
	if err := rewrite(c.Path, c.Before, like); err != nil {
		return nil, err
	}
	return told, remove(c.Backup)
}

// restoreLines takes back setup's lines in a file. Where some of them are gone the former
// text stays next to it.
func restoreLines(c Change) (told []string, err error) {
	now, err := os.ReadFile(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{fmt.Sprintf("%s is gone; what it was before setup is in %s", c.Path, c.Backup)}, nil
	}
	if err != nil {
		return nil, err
	}
	text, remarks := string(now), []remark(nil)
	if text != c.Before {
		text, remarks = takeBack(c.After, text, c.Edits)
	}
	for _, r := range remarks {
		told = append(told, fmt.Sprintf("%s:%d: %s", c.Path, r.line+1, r.text))
	}
	if err := rewrite(c.Path, text, c.Path); err != nil {
		return told, err
	}
	if len(told) > 0 {
		return append(told, "the whole file before setup is in "+c.Backup), nil
	}
	return nil, remove(c.Backup)
}

// keepForeign saves a file that is no more as setup left it or found it.
func keepForeign(c Change) (told []string, err error) {
	now, err := os.ReadFile(c.Path)
	if os.IsNotExist(err) || err == nil && (string(now) == c.After || string(now) == c.Before) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []string{"it was changed since: that is kept as " + c.Path + undoneEnd}, rewrite(c.Path+undoneEnd, string(now), c.Path)
}

// remove removes what may be gone already.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
