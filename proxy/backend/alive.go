package backend

import (
	"errors"
	"syscall"
)

// isAlive tells whether the backend has neither closed the connection, nor said
// something that nobody asked for.
func (c *Conn) isAlive() bool {
	if c.raw == nil {
		return true
	}
	speaks := false
	err := c.raw.Control(func(fd uintptr) { speaks = isSpoken(int(fd)) })
	return err == nil && !speaks
}

// isSpoken tells whether there is something to be read, the end included. To peek costs a
// quarter of what poll(2) does.
func isSpoken(fd int) bool {
	var b [1]byte
	for {
		_, _, err := syscall.Recvfrom(fd, b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if !errors.Is(err, syscall.EINTR) {
			return !errors.Is(err, syscall.EAGAIN)
		}
	}
}
