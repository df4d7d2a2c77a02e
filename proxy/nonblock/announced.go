//go:build unix && !(linux && (amd64 || arm64) && !race)

package nonblock

import (
	"errors"
	"syscall"
)

// The race detector knows of what package syscall reads and writes, and not of other calls.

// Read reads what there is; 0 without an error: the other side has ended.
func Read(fd uintptr, p []byte) (n int, err error) {
	return again(func() (int, error) { return syscall.Read(int(fd), p) })
}

// Peek reads the beginning of what there is, and leaves it there.
func Peek(fd uintptr, p []byte) (n int, err error) {
	return again(func() (int, error) {
		n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n, err
	})
}

// Write writes as much as there is room for.
func Write(fd uintptr, p []byte) (n int, err error) {
	return again(func() (int, error) { return syscall.Write(int(fd), p) })
}

// WriteAll writes as much of several pieces, in their order, as there is room for: here, of
// the first one that is not empty.
func WriteAll(fd uintptr, pieces [][]byte) (n int, err error) {
	for _, p := range pieces {
		if len(p) > 0 {
			return Write(fd, p)
		}
	}
	return 0, nil
}

func again(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, syscall.EINTR) {
			return max(0, n), err
		}
	}
}
