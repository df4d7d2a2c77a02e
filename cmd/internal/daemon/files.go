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

// ReadSecret reads a file of at most so many bytes that others may neither read nor change.
func ReadSecret(file string, most int64) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", file)
	case info.Mode().Perm()&0o027 != 0:
		return nil, fmt.Errorf("%s has mode %#o: others may not read it, nor its group write it. Run: chmod 640 %[1]s", file, info.Mode().Perm()&fs.ModePerm)
	case info.Size() > most:
		return nil, fmt.Errorf("%s has more than %d characters", file, most)
	}
	return os.ReadFile(file)
}

// Keep is an owner or a group of ReplaceFile: that of this process.
const Keep = -1

// ReplaceFile puts a file in the place of another one, as a whole or not at all, also if the machine crashes in the meantime. A
// link in place of the file is replaced, not followed, and nothing is written into what somebody else has made. Its name
// begins with a dot until then: no server includes it. What write gets is buffered.
func ReplaceFile(path string, mode os.FileMode, uid, gid int, write func(io.Writer) error) error {
	dir, name := filepath.Split(path)
	next := filepath.Join(dir, "."+name+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
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
		err = f.Sync() // or the name could be there before the data
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
