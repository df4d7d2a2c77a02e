package front

import "time"

const (
	// lingerTime is how long a connection stays open at most whose client still sends what
	// nobody wants; the sweep may end it before, as one that waits for a request: after
	// Options.Header where none was served, else after Options.Idle. If it were closed at once, the client's kernel would throw the answer
	// away together with the connection (RFC 9112, 9.6).
	lingerTime = 30 * time.Second
	// lingerSilence is how long such a client may send nothing.
	lingerSilence = 5 * time.Second
)

// linger ends the half of the connection that answers go by, and throws away what comes
// on the other one until the client has closed it.
func (c *conn) linger() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	c.giveBack() // it may be more than the usual
	c.memory = c.server.memory.in.Get().(*inMemory)
	now := time.Now()
	c.rested.Store(true) // it is not to be woken
	c.waits(now)         // a server that ends does not wait for it
	for until := now.Add(lingerTime); now.Before(until); now = time.Now() {
		_ = c.SetReadDeadline(now.Add(lingerSilence))                // a connection that is closed says so when it is read
		if _, err := c.below().Read(c.memory.bytes[:]); err != nil { // of TLS, too: nobody has to understand it
			return
		}
	}
}
