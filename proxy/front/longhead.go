package front

import "net/netip"

// mostLong is how many heads that need more than inSize may come at a time: a client that
// has many connections could have the server hold Options.MaxHead for each.
const mostLong = 1024

// holder is the client whose long heads count together; the zero Addr: all that have no address.
func (c *conn) holder() netip.Addr {
	peer, err := netip.ParseAddrPort(c.remote)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr()
}

// longestShort is the longest head that needs no room, in bytes: the buffer does not grow for it.
const longestShort = inSize - 1

// readHead reads the head of a request, a long one if there is room for it.
func (c *conn) readHead(r *request) error {
	most := c.server.o.MaxHead
	if most < inSize || c.long {
		return c.in.ReadRequest(&r.head, most)
	}
	err := c.in.ReadRequest(&r.head, longestShort)
	if c.in.Buffered() < longestShort || err == nil {
		return err // not as it is longer: what is too long is not taken
	}
	if ok, _ := c.server.long.Take(c.holder(), 1); !ok {
		return err
	}
	c.long = true
	return c.in.ReadRequest(&r.head, most)
}

// shorten has what follows a long head lie in the usual memory, if it fits.
func (c *conn) shorten() {
	if !c.long || c.in.Buffered() > inSize {
		return
	}
	n := copy(c.memory.bytes[:], c.in.Peek(inSize))
	c.in.Resume(c.Conn, c.memory.bytes[:], n)
	c.longEnds()
}

// longEnds says that the memory of a long head is free.
func (c *conn) longEnds() {
	if c.long {
		c.long = false
		c.server.long.GiveBack(c.holder(), 1)
	}
}
