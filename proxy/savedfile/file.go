package savedfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace puts a file in the place of another one, as a whole or not at all, also if the
// machine crashes meanwhile. It writes nothing through a link and into no file that
// somebody else has made, should others be able to write in the directory; a link in
// place of the file itself is replaced, not followed.
//
// What write gets is buffered.
func Replace(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(file)
	if err = errors.Join(write(buffered), buffered.Flush()); err == nil {
		err = file.Sync() // or the name could be there before the data
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return syncDirectory(filepath.Dir(path))
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// ReadOwn reads a file of at most so many bytes that nobody but this process's user, and
// root, can have written: what it says is believed. The error is fs.ErrNotExist if there
// is none.
func ReadOwn(path string, most int64) ([]byte, error) {
	// What is opened could be a pipe, and nobody write to it.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is not a file of at most %d MB", path, most>>20)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()) || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by others, and so is not believed", path)
	}
	return io.ReadAll(io.LimitReader(file, most))
}
