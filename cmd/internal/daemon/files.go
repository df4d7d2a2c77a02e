package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadSecret reads a file. It fails if the file is larger than most, in bytes, or if other users can read or change
// it.
func ReadSecret(file string, most int64) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", file)
	case info.Mode().Perm()&0o027 != 0:
		return nil, fmt.Errorf("%s has mode %#o, but only its owner may have write access, and only its owner and group may have read access. Run: chmod 640 %[1]s", file, info.Mode().Perm()&fs.ModePerm)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has more than %d bytes", file, most)
	}
	text, err := os.ReadFile(file)
	return text, WithRemedy(err, file)
}

// WithRemedy adds to an error of reading a file how to make the file readable.
func WithRemedy(err error, file string) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w. Let the group tempomat read it: chgrp tempomat %[2]s && chmod 640 %[2]s", err, file)
	}
	return err
}

// Keep means this process's own user or group, as an argument of ReplaceFile.
const Keep = -1

// ReplaceFile replaces a file completely or not at all, even if the machine crashes. It replaces a symbolic
// link instead of following it, and never writes into a file that another program has created. The temporary
// file's name begins with a dot, so no server includes the file. The writer passed to write is buffered.
func ReplaceFile(path string, mode os.FileMode, uid, gid int, write func(io.Writer) error) error {
	dir, name := filepath.Split(path)
	next := filepath.Join(dir, "."+name+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // a process that was killed may have left it
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(f)
	err = errors.Join(write(buffered), buffered.Flush(), f.Chmod(mode))
	if err == nil && (uid >= 0 || gid >= 0) {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Sync() // otherwise a crash could leave the new name without its data
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
