package spool

import (
	"errors"
	"os"
	"syscall"
)

const (
	// oTmpfile is O_TMPFILE of open(2), which package syscall does not name.
	oTmpfile = 0x400000 | syscall.O_DIRECTORY
	// The modes of fallocate(2).
	keepSize  = 0x1
	punchHole = 0x2
)

// holedFile gives back what has been read.
type holedFile struct{ *os.File }

// openFile opens a file that never has a name, so that nothing is left of it
// when the process dies.
func openFile(directory string) (file, error) {
	f, err := os.OpenFile(directory, os.O_RDWR|oTmpfile|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		return holedFile{f}, nil
	case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EINVAL):
		return createFile(directory)
	}
	return nil, err
}

func (f holedFile) Punch(from, n int64) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.Fallocate(int(fd), keepSize|punchHole, from, n)
	})
	return errors.Join(err, failed)
}

// freeSpace is what an ordinary user may still write to the directory's file
// system, and the size of that, in bytes.
func freeSpace(directory string) (free, total int64, err error) {
	var s syscall.Statfs_t
	for {
		if err = syscall.Statfs(directory, &s); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	unit := int64(s.Bsize)                                     //nolint:unconvert // it is shorter on 32 bits
	return int64(s.Bavail) * unit, int64(s.Blocks) * unit, nil //nolint:gosec // no disk has 8 EiB
}

// The types of statfs(2) that are memory.
const (
	tmpfs = 0x01021994
	ramfs = 0x858458f6
)

// isMemory reports whether a directory's files are in memory.
func isMemory(directory string) bool {
	var s syscall.Statfs_t
	if syscall.Statfs(directory, &s) != nil {
		return false
	}
	kind := uint32(s.Type) //nolint:gosec // 32 bits, with a sign on some machines
	return kind == tmpfs || kind == ramfs
}
