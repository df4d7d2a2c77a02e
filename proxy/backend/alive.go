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
		c.look = func(fd uintptr) {
			var err error
			c.speaks, err = isSpoken(fd)
			c.noteReset(err)
		}
	}
	return c.raw.Control(c.look) == nil && !c.speaks
}

// isSpoken tells whether there is something to be read, the end included, or an error. To peek costs a
// quarter of what poll(2) does.
func isSpoken(fd uintptr) (bool, error) {
	var b [1]byte
	_, err := nonblock.Peek(fd, b[:])
	return !errors.Is(err, syscall.EAGAIN), err
}

// noteReset notes that the backend has reset the connection. The kernel tells it once, to who looks, writes or
// reads first: to the next one the connection has come to its end, as a body may without a length. TLS has an end
// of its own.
func (c *Conn) noteReset(err error) {
	if c.bare && errors.Is(err, syscall.ECONNRESET) {
		c.reset.Store(true)
	}
}
