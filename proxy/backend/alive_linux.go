package backend

import (
	"errors"

	"golang.org/x/sys/unix"
)

// isAlive tells whether the backend has neither closed the connection, nor said
// something that nobody asked for.
func (c *Conn) isAlive() bool {
	if c.raw == nil {
		return true
	}
	if c.look == nil {
		c.look = func(fd uintptr) {
			c.looked[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN | unix.POLLRDHUP} //nolint:gosec // descriptors are small
			n, err := unix.Poll(c.looked[:], 0)
			for errors.Is(err, unix.EINTR) { // also without a wait, when the runtime has sent a signal
				n, err = unix.Poll(c.looked[:], 0)
			}
			c.speaks = err != nil || n > 0
		}
	}
	return c.raw.Control(c.look) == nil && !c.speaks
}
