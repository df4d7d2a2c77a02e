package setup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"tempomat/cmd/internal/daemon"
)

// journal records the changes that setup makes, to be able to undo them. It is written before the first change, so
// even a setup that was killed can be undone.
type journal struct {
	Systemd bool     // systemd runs here
	Server  string   // the unit of the web server: apache2, or nginx if an earlier release did the setup
	Check   []string // the command that checks the server's configuration
	Config  string   // the path of tempomat's configuration
	Changes []Change
	Probes  []Probe // pages that must give the same status after the changes
	Before  Service // the state of the proxy's unit before the changes
	Reread  bool    // systemd must read its units again
	// Directories are the directories that setup created, outermost first.
	Directories []string
}

// serverFile reports whether a change concerns the web server's files. All other changes concern the proxy:
// its configuration, its unit, and access to keys.
func (j *journal) serverFile(c Change) bool {
	return c.Access == nil && c.Path != j.Config && !strings.Contains(c.Path, "/"+unitName+".service.d/")
}

// ports returns the ports that the proxy took over.
func (j *journal) ports() (ports []int) {
	for _, p := range j.Probes {
		ports = append(ports, p.Port)
	}
	return ports
}

// public returns the port that the proxy took over, or 0.
func (j *journal) public() int {
	if len(j.Probes) == 0 {
		return 0
	}
	return j.Probes[0].Port
}

// checks returns the commands that check the changed files before any server uses them. Systemd must read the changed
// unit first, because the proxy's check gets the unit's groups from systemd.
func (j *journal) checks() [][]string {
	list := [][]string{j.Check}
	if j.Systemd && j.Reread {
		list = append(list, []string{"systemctl", "daemon-reload"})
	}
	return append(list, []string{unitName, "-check", "-config", j.Config})
}

// switching returns the systemd commands that make the servers use the files. Without systemd there are none.
func (j *journal) switching() [][]string {
	if !j.Systemd {
		return nil
	}
	return [][]string{{"systemctl", "enable", unitName}, {"systemctl", reload, j.Server}, {"systemctl", "restart", unitName}}
}

// journalName is the name of the journal, which is in the directory of tempomat's configuration.
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

// missingDirectories returns the parent directories of a file that don't exist, outermost first.
func missingDirectories(name string) (list []string) {
	for dir := filepath.Dir(name); !exists(dir); dir = filepath.Dir(dir) {
		list = append([]string{dir}, list...)
	}
	return list
}

// replaceFile replaces the whole text of a file.
func replaceFile(name, text string, mode os.FileMode, uid, gid int) error {
	return daemon.ReplaceFile(name, mode, uid, gid, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// rewrite replaces the text of a file. The file gets the owner and mode of the file like, which may be the
// same file.
func rewrite(name, text, like string) error {
	info, err := os.Lstat(like)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !ok {
		return fmt.Errorf("%s isn't a regular file", like)
	}
	return replaceFile(name, text, info.Mode().Perm(), int(s.Uid), int(s.Gid))
}

// ready returns an error if a change can't be made because the machine has changed since the plan was made.
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
		return fmt.Errorf("%s already exists and would be overwritten: move it away", name)
	}
	return nil
}

// put makes a change. Call ready first.
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

// setAccess sets the group and mode of a file or directory.
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

// undoneEnd is the suffix for copies of files that setup created and that were edited later.
const undoneEnd = ".undone"

// restore reverts a change, even one that was never made. told contains information for the administrator: the path at
// which an edited file is kept, and the lines of setup that are missing.
func restore(c Change) (told []string, err error) {
	if c.Access != nil {
		err := setAccess(*c.Was)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // the file was deleted, so no access needs to be restored
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
	if !exists(like) { // the file was deleted
		like = c.Backup
	}
	if err := rewrite(c.Path, c.Before, like); err != nil {
		return nil, err
	}
	return told, remove(c.Backup)
}

// restoreLines reverts setup's lines in a file. If some of them are missing, it keeps the previous text next
// to the file.
func restoreLines(c Change) (told []string, err error) {
	now, err := os.ReadFile(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{fmt.Sprintf("%s no longer exists; its text from before setup is in %s", c.Path, c.Backup)}, nil
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
		return append(told, "the file from before setup is in "+c.Backup), nil
	}
	return nil, remove(c.Backup)
}

// keepForeign saves a copy of a file that was edited after setup.
func keepForeign(c Change) (told []string, err error) {
	now, err := os.ReadFile(c.Path)
	if os.IsNotExist(err) || err == nil && (string(now) == c.After || string(now) == c.Before) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []string{"it was changed after setup: the changed file is kept as " + c.Path + undoneEnd}, rewrite(c.Path+undoneEnd, string(now), c.Path)
}

// remove removes a file, if it exists.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
