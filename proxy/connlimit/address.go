package connlimit

import "math"

// address is what one address holds: a leaf of the tree. Its methods are for whoever
// holds Table.mu.
type address struct {
	table  *Table
	parent *branch // nil: it is the root
	key    uint64
	// conns are those in line, a heap whose first has the earliest since, and after
	// them those passed over, in no order.
	conns   []*Conn
	inLine  int32
	trusted bool
}

// total says what the address holds and weighs.
func (a *address) total() total {
	n := int32(len(a.conns)) //nolint:gosec // at most Table.most
	t := total{open: n, counted: n, oldest: math.MaxInt64, fullest: n}
	if a.trusted {
		t.counted, t.fullest = min(n, a.table.few), 0
	}
	switch {
	case a.inLine > 0:
		t.oldest = a.conns[0].since
	case !a.holdsLargePart():
		return t // it has nothing to give
	}
	t.weight = max(t.counted, a.table.few)
	return t
}

func (a *address) hangFrom(b *branch) { a.parent = b }

// holdsLargePart tells whether requests under way have to go, too.
func (a *address) holdsLargePart() bool {
	return !a.trusted && len(a.conns) > int(a.table.large)
}

// give returns the connection that goes next, marked as gone but not yet taken out. It
// returns nil if the line was out of date: then it has become better, and it is not
// certain any more that it is this address's turn.
func (a *address) give() *Conn {
	if a.inLine == 0 {
		c := a.conns[len(a.conns)-1]
		c.state.Store(gone) // who was passed over changes its state only with the lock
		return c
	}
	c := a.conns[0]
	switch s := c.state.Load(); s & activity {
	case waiting:
		if since := s >> sinceShift; since != c.since { // it has had a request
			c.since = since
			a.down(0)
		} else if c.state.CompareAndSwap(s, gone) {
			return c
		}
	case busy:
		if c.state.CompareAndSwap(s, passedOver) {
			a.leaveLine(c)
		}
	}
	return nil
}

// add adds a connection, in line.
func (a *address) add(c *Conn) {
	c.address, c.at = a, int32(len(a.conns)) //nolint:gosec // at most Table.most
	a.conns = append(a.conns, c)
	a.lineUp(c)
}

// lineUp puts a connection in line that is not.
func (a *address) lineUp(c *Conn) {
	a.swap(c.at, a.inLine)
	a.inLine++
	a.up(c.at)
}

// leaveLine takes a connection out of the line.
func (a *address) leaveLine(c *Conn) {
	a.inLine--
	at := c.at
	a.swap(at, a.inLine)
	if at < a.inLine {
		a.down(at)
		a.up(at)
	}
}

// drop takes a connection out.
func (a *address) drop(c *Conn) {
	if c.at < a.inLine {
		a.leaveLine(c)
	}
	last := len(a.conns) - 1
	a.swap(c.at, int32(last)) //nolint:gosec // at most Table.most
	a.conns[last] = nil
	a.conns = a.conns[:last]
	if cap(a.conns) > 16 && last < cap(a.conns)/4 { // what was once held takes no memory
		a.conns = append(make([]*Conn, 0, 2*last), a.conns...)
	}
}

func (a *address) swap(i, j int32) {
	c := a.conns
	c[i], c[j] = c[j], c[i]
	c[i].at, c[j].at = i, j
}

// up moves a connection to its place before those that waited for less long.
func (a *address) up(i int32) {
	for i > 0 {
		parent := (i - 1) / 2
		if a.conns[parent].since <= a.conns[i].since {
			return
		}
		a.swap(i, parent)
		i = parent
	}
}

// down moves it behind those that waited for longer.
func (a *address) down(i int32) {
	for {
		first := 2*i + 1
		if first >= a.inLine {
			return
		}
		if next := first + 1; next < a.inLine && a.conns[next].since < a.conns[first].since {
			first = next
		}
		if a.conns[i].since <= a.conns[first].since {
			return
		}
		a.swap(i, first)
		i = first
	}
}
