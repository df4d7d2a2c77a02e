package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replaceFile puts a text in the place of a file at once. Without an owner (-1) it
// belongs to this user.
func replaceFile(name string, text []byte, mode os.FileMode, uid, gid int) (err error) {
	// The name begins with a dot: no server includes such files meanwhile.
	f, err := os.CreateTemp(filepath.Dir(name), ".tempomat-setup-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the first error tells more
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Chmod(mode)
	}
	if err == nil && uid >= 0 {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
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
	return replaceFile(name, []byte(text), info.Mode().Perm(), int(s.Uid), int(s.Gid))
}

// ready tells whether a change can be made: all is as it was when the plan was made.
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
		return fmt.Errorf("%s was changed meanwhile", c.Path)
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
		return replaceFile(c.Path, []byte(c.After), 0o644, -1, -1)
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

// undoneEnd marks what somebody wrote into a file of setup's after setup had made it.
const undoneEnd = ".undone"

// restore takes one change back, made or not, and tells what a person should know of it:
// what somebody wrote since into a file that is setup's as a whole is kept beside it, and
// lines that are gone from an edited file are named.
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
	if !exists(like) { // somebody has deleted it
		like = c.Backup
	}
	if err := rewrite(c.Path, c.Before, like); err != nil {
		return nil, err
	}
	return told, remove(c.Backup)
}

// restoreLines takes back setup's lines in a file. Where some of them are gone the former
// text stays beside it.
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
