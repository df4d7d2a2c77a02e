package front

import (
	"errors"
	"os"
	"syscall"

	"tempomat/proxy/nonblock"
)

// giveAll writes pieces to the client, without TLS in one call if there is room for all. It
// may change them.
func (c *conn) giveAll(pieces [][]byte) error {
	if c.raw == nil || c.tls != nil {
		for _, p := range pieces {
			if _, err := c.Write(p); err != nil {
				return err
			}
		}
		return nil
	}
	if c.give == nil {
		c.give = c.giveStep
	}
	c.gives, c.gave = pieces, nil
	err := c.raw.Write(c.give)
	c.gives = nil
	if err == nil {
		err = c.gave
	}
	return err
}

// giveStep writes as much as it can without waiting. It returns false if there is more.
func (c *conn) giveStep(fd uintptr) (done bool) {
	for len(c.gives) > 0 {
		n, err := nonblock.WriteAll(fd, c.gives)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			c.gave = os.NewSyscallError("write", err)
			return true
		}
		c.written(n)
	}
	return true
}

// written takes in that so many bytes of what is to be written are.
func (c *conn) written(n int) {
	for len(c.gives) > 0 && n >= len(c.gives[0]) {
		n -= len(c.gives[0])
		c.gives = c.gives[1:]
	}
	if n > 0 {
		c.gives[0] = c.gives[0][n:]
	}
}
