//go:build !(linux && (amd64 || arm64) && !race)

package nonblock

import (
	"errors"
	"syscall"
)

// These functions are for other systems, and for the race detector, which understands only the reads and writes
// of package syscall.

// Read reads the available bytes. 0 without an error means that the other side has closed its end.
func Read(fd uintptr, p []byte) (n int, err error) {
	return again(func() (int, error) { return syscall.Read(int(fd), p) })
}

// Peek reads the beginning of the available bytes and leaves them in the socket.
func Peek(fd uintptr, p []byte) (n int, err error) {
	return again(func() (int, error) {
		n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return n, err
	})
}

// Write writes as many bytes as the socket has room for.
func Write(fd uintptr, p []byte) (n int, err error) {
	return again(func() (int, error) { return syscall.Write(int(fd), p) })
}

// WriteAll writes as much of the first non-empty piece as the socket has room for.
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
