package backend

import "golang.org/x/sys/unix"

// isAlive tells whether the backend has neither closed the connection, nor said
// something that nobody asked for.
func (c *Conn) isAlive() bool {
	if c.raw == nil {
		return true
	}
	alive := true
	err := c.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		alive = err == unix.EAGAIN || err == unix.EINTR
	})
	return err == nil && alive
}
