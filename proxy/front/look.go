package front

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// hasLeft reports whether the other side has closed a connection, even if data that it sent earlier has not
// been read.
func hasLeft(raw syscall.RawConn) (left bool) {
	err := raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a descriptor
		n, err := unix.Poll(p, 0)
		left = err == nil && n > 0
	})
	return left || err != nil // an error means that this side has closed the connection
}
