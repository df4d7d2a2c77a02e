package front

import (
	"net/netip"
	"sync"

	"tempomat/proxy/subscriber"
)

const (
	// mostLong is how many heads that need more than inSize may come at a time: who has
	// many connections could have the server hold Options.MaxHead for each.
	mostLong = 1024
	// One address (IPv6: its /64) may have the longPart-th part of what the others leave: so a few
	// addresses do not have all there are.
	longPart = 16
)

// longHeads counts the heads under way that are long. Its methods may be called
// concurrently.
type longHeads struct {
	most int

	mu  sync.Mutex // guards the following
	all int
	of  map[netip.Addr]int
}

func newLongHeads(most int) *longHeads { return &longHeads{most: most, of: make(map[netip.Addr]int)} }

// enter tells whether there is room for another one of that address.
func (l *longHeads) enter(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.most - l.all
	if left == 0 || l.of[a] >= (left+l.of[a]+longPart-1)/longPart {
		return false
	}
	l.all++
	l.of[a]++
	return true
}

// leave ends what enter has begun.
func (l *longHeads) leave(a netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[a]--; l.of[a] == 0 {
		delete(l.of, a)
	}
}

// holder is whose long heads count together; the zero Addr: of whoever has no address.
func (c *conn) holder() netip.Addr {
	peer, err := netip.ParseAddrPort(c.remote)
	if err != nil {
		return netip.Addr{}
	}
	return subscriber.Of(peer.Addr())
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
	if !c.server.long.enter(c.holder()) {
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
		c.server.long.leave(c.holder())
	}
}
