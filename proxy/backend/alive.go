package backend

import (
	"errors"
	"syscall"

	"tempomat/proxy/nonblock"
)

// isSilent tells whether there is nothing to be read: the backend has neither said anything, nor
// closed the connection. One that cannot be looked at is. One goroutine calls it at a time.
func (c *Conn) isSilent() bool {
	if c.raw == nil {
		return true
	}
	if c.look == nil {
		c.look = func(fd uintptr) { c.speaks = isSpoken(fd) }
	}
	return c.raw.Control(c.look) == nil && !c.speaks
}

// isSpoken tells whether there is something to be read, the end included. To peek costs a
// quarter of what poll(2) does.
func isSpoken(fd uintptr) bool {
	var b [1]byte
	_, err := nonblock.Peek(fd, b[:])
	return !errors.Is(err, syscall.EAGAIN)
}
