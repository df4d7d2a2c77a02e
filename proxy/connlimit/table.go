package connlimit

import (
	"io"
	"net/netip"
	"sync"
	"time"
)

const (
	// Who holds few connections weighs as much as who holds that many: the 256th part
	// of the bound, but no less than two browsers open, and no more than a household.
	fewPart, fewLeast, fewMost = 256, 8, 32
	// Who holds more than the fourth part of the bound loses requests under way, too.
	largePart = 4
	// Who holds more than the 64th part, and four times as many as count as few, loses them
	// where only who holds few would lose anything.
	manyPart, manyFew = 64, 4
	// So do the networks where more than the eighth part of the bound is, if narrow, or the
	// fourth part, if wide.
	crowdNarrow, crowdWide = 8, 4
	// ceiling is the largest bound.
	ceiling = 1 << 24
)

// Table is all connections that are open. All methods may be called concurrently.
type Table struct {
	start                  time.Time
	most, few, many, large int32

	mu            sync.Mutex // guards the following
	tree          tree
	open          int32
	addresses     int
	shed, refused uint64
}

// New makes a Table for at most so many connections, 1 to 16,777,216: what is beyond is
// taken as the nearest. All later times are after now.
func New(now time.Time, most int) *Table {
	n := int32(min(max(most, 1), ceiling))
	few := min(max(n/fewPart, fewLeast), fewMost)
	return &Table{start: now, most: n, few: few, many: max(n/manyPart, manyFew*few), large: max(n/largePart, few)}
}

// Enter adds a connection from an address, which waits for its client now. The zero Addr,
// for Unix sockets, is one address like another. If trusted, the address brings many
// clients.
//
// If too many are open then, one is closed, by its Close on the caller's goroutine. If
// that is the newcomer, Enter returns nil. Otherwise call Leave at the end, also if the
// connection was closed to make room.
func (t *Table) Enter(now time.Time, from netip.Addr, trusted bool, closer io.Closer) *Conn {
	c := &Conn{closer: closer, since: t.at(now)}
	c.state.Store(waitingSince(c.since))
	if out := t.enter(c, keyOf(from), trusted); out != nil {
		_ = out.closer.Close() // it is given up
		if out == c {
			return nil
		}
	}
	return c
}

// enter adds a connection and returns the one that has to go; nil: none has to.
func (t *Table) enter(c *Conn, key uint64, trusted bool) *Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.tree.find(key, t)
	if len(a.conns) == 0 {
		t.addresses++
	}
	a.trusted = trusted
	a.add(c)
	sumUp(a.parent)
	if t.open++; t.open <= t.most {
		return nil
	}
	out := t.take()
	if out == c {
		t.refused++
	} else {
		t.shed++
	}
	return out
}

// Shed closes one connection, the one that Enter would. It is for a caller that has no
// descriptor left though fewer are open than there may be. It returns false if none can
// be closed.
func (t *Table) Shed() bool {
	t.mu.Lock()
	out := t.take()
	if out != nil {
		t.shed++
	}
	t.mu.Unlock()
	if out == nil {
		return false
	}
	_ = out.closer.Close() // it is given up
	return true
}

// take takes out the connection that goes next; nil: none can. t.mu is held.
func (t *Table) take() *Conn {
	for {
		a, weight := t.tree.heaviest()
		if weight <= t.few {
			if b := t.full(); b != nil {
				a = b
			}
		}
		if a == nil {
			return nil
		}
		if c := a.give(); c != nil {
			t.remove(c)
			return c
		}
		sumUp(a.parent)
	}
}

// full returns the address that gives before who holds few: one that has much under way,
// or one of a network that has. t.mu is held.
func (t *Table) full() *address {
	if t.tree.root == nil {
		return nil
	}
	// An address with much has nothing in line here, or it would weigh more.
	if a := fullest(t.tree.root); a == nil || len(a.conns) > int(t.many) {
		return a
	}
	crowd := t.tree.crowd(max(t.most/crowdNarrow, t.few), max(t.most/crowdWide, t.few))
	switch {
	case crowd == nil:
		return nil
	case crowd.weight > 0: // nobody there has a request cut while another one waits
		return giver(crowd)
	}
	return fullest(crowd)
}

// remove takes out a connection that is gone. t.mu is held.
func (t *Table) remove(c *Conn) {
	t.open--
	a := c.address
	a.drop(c)
	if len(a.conns) > 0 {
		sumUp(a.parent)
		return
	}
	t.addresses--
	t.tree.remove(a)
}

// lineUp is Idle for a connection that was passed over.
func (t *Table) lineUp(c *Conn, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.state.Load()&activity == gone {
		return false
	}
	c.since = t.at(now)
	c.state.Store(waitingSince(c.since))
	c.address.lineUp(c)
	sumUp(c.address.parent)
	return true
}

// at is a time in nanoseconds.
func (t *Table) at(now time.Time) int64 { return int64(now.Sub(t.start)) }
