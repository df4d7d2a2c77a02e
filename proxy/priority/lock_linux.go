package priority

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a part of a file, unless somebody else has: another process, or another
// opening of the file. The kernel unlocks it when the file is closed, or the process ends.
func lock(f *os.File, at, size int) bool { return setLock(f, unix.F_WRLCK, at, size) }

func unlock(f *os.File, at, size int) { setLock(f, unix.F_UNLCK, at, size) }

func setLock(f *os.File, kind int16, at, size int) bool {
	l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: int64(at), Len: int64(size)}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l) == nil
}
