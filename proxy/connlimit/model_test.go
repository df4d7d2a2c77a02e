package connlimit

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// verify checks the invariants of a table that is not in use.
func verify(t rapid.TB, table *Table) {
	t.Helper()
	if len(table.conns) > int(table.most) {
		t.Fatalf("%d connections of %d", len(table.conns), table.most)
	}
	for k := range kinds {
		held := make(map[netip.Prefix]map[netip.Addr]int32)
		for i, c := range table.conns {
			key := k.key(c.from)
			if c.at != int32(i) || c.groups[k] != table.groups[k][key] || c.state.Load()&activity == gone {
				t.Fatal("a connection is in the wrong place")
			}
			if held[key] == nil {
				held[key] = make(map[netip.Addr]int32)
			}
			held[key][c.from]++
		}
		for key, of := range held {
			want := group{addresses: int32(len(of)), trusted: k == whole && table.groups[k][key].trusted}
			for a, n := range of {
				want.open += n
				if table.groups[whole][whole.key(a)].trusted {
					n = min(n, table.few)
				}
				want.counted += n
			}
			if got := *table.groups[k][key]; got != want {
				t.Fatalf("%s is %+v, want %+v", key, got, want)
			}
		}
		if len(held) != len(table.groups[k]) {
			t.Fatalf("%d groups of kind %d, want %d", len(table.groups[k]), k, len(held))
		}
	}
}

// modelConn is a connection in the tests' model.
type modelConn struct {
	*Conn
	flag
	address netip.Addr
	busy    bool
	since   time.Time
}

// crowd is a table and its connections.
type crowd struct {
	t     *rapid.T
	table *Table
	now   time.Time
	conns []*modelConn
}

func (m *crowd) enter(a netip.Addr) {
	c := &modelConn{address: a, since: m.now}
	before := m.table.Stats(0)
	m.conns = append(m.conns, c)
	c.Conn = m.table.Enter(m.now, a, a.String() == balancer, c)
	after := m.table.Stats(0)
	switch gone := m.takeClosed(); {
	case before.Open < before.Most && gone == nil && c.Conn != nil:
	case before.Open < before.Most || gone == nil || (gone == c) != (c.Conn == nil):
		m.t.Fatalf("one of %d was closed: %t; the newcomer was let in: %t", after.Open, gone != nil, c.Conn != nil)
	case after.Refused-before.Refused+after.Shed-before.Shed != 1:
		m.t.Fatalf("counted %+v, then %+v", before, after)
	}
}

// takeClosed removes the connection that was closed, and checks that it was a valid choice: if the whole
// table was examined, a waiting address that holds more than few loses a connection before one that holds
// few, and no request is cut while another address that holds few could lose a connection.
func (m *crowd) takeClosed() (gone *modelConn) {
	held := make(map[netip.Addr]int)
	for _, c := range m.conns {
		held[c.address]++
		if c.closed > 1 || c.closed == 1 && gone != nil {
			m.t.Fatal("more than one was closed")
		}
		if c.closed == 1 {
			gone = c
		}
	}
	if gone == nil {
		return nil
	}
	few := int(m.table.few)
	for _, c := range m.conns {
		if !c.busy && c.address == gone.address && c != gone && (gone.busy || c.since.Before(gone.since)) {
			m.t.Fatalf("of %s one was closed though another one has waited for longer", c.address)
		}
		if !c.busy && held[gone.address] <= few && held[c.address] > few && c.address.String() != balancer && !m.weighs(gone.address) {
			m.t.Fatalf("one of %d was closed though one of %d waits", held[gone.address], held[c.address])
		}
	}
	if gone.busy && (gone.address.String() == balancer || held[gone.address] <= few && !m.weighs(gone.address)) {
		m.t.Fatalf("a request was cut of an address that holds %d", held[gone.address])
	}
	m.conns = slices.DeleteFunc(m.conns, func(c *modelConn) bool { return c == gone })
	return gone
}

// weighs reports whether a network of the address may lose connections before other networks.
func (m *crowd) weighs(a netip.Addr) bool {
	least := min(m.table.few*narrowPart, max(m.table.most/crowdNarrow, m.table.few))
	var in, of int32
	for _, c := range m.conns {
		in += int32(btoi(wide.key(c.address) == wide.key(a)))
		of += int32(btoi(narrow.key(c.address) == narrow.key(a)))
	}
	return of >= least || in >= least
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// someAddress draws an address from networks that overlap.
func someAddress(t *rapid.T) netip.Addr {
	text := "10.0.0.1" // the balancer
	switch n := rapid.IntRange(0, 63).Draw(t, "host"); rapid.IntRange(0, 8).Draw(t, "network") {
	case 0, 1, 2:
		text = nth("192.0.2.%d", n)
	case 3:
		text = nth("192.0.%d.7", n)
	case 4:
		text = nth("2001:db8:1:%d::1", n)
	case 5:
		text = nth("2001:db8:%d::1", n)
	case 6:
		text = nth("198.51.100.%d", n/16)
	case 7:
		text = nth("10.0.0.%d", 2+n/16)
	}
	return netip.MustParseAddr(text)
}

// TestWhateverComes: after any sequence of events, the counters are right. A connection is closed whenever one
// must be, and the choice is valid.
func TestWhateverComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{3, 30, 2*looks - 1}).Draw(t, "most")
		table := New(start, most)
		table.few = rapid.Int32Range(1, 8).Draw(t, "few") // otherwise the networks of a small table would weigh less
		table.many, table.large = 2*table.few, max(table.few, int32(most/4))
		m := &crowd{t: t, table: table, now: start}
		for range 2 * most {
			m.now = m.now.Add(time.Millisecond)
			m.step()
			verify(t, table)
		}
		for _, c := range m.conns {
			c.Leave()
		}
		if s := table.Stats(1); s.Open != 0 || s.Addresses != 0 || len(table.groups[narrow])+len(table.groups[wide]) != 0 {
			t.Fatalf("all have left: %+v", s)
		}
	})
}

// step does one random thing, preferably one that fills the table.
func (m *crowd) step() {
	action := rapid.IntRange(0, 9).Draw(m.t, "action")
	if len(m.conns) == 0 || action < 5 {
		for range rapid.IntRange(1, 3).Draw(m.t, "newcomers") {
			m.now = m.now.Add(time.Millisecond)
			m.enter(someAddress(m.t))
		}
		return
	}
	i := rapid.IntRange(0, len(m.conns)-1).Draw(m.t, "which")
	c := m.conns[i]
	switch action {
	case 5:
		if gone := m.table.Shed(); gone != (m.takeClosed() != nil) {
			m.t.Fatalf("Shed closed one: %t", gone)
		}
	case 6:
		c.Leave()
		c.Leave()
		m.conns = slices.Delete(m.conns, i, i+1)
	case 7, 8:
		for range rapid.IntRange(1, 8).Draw(m.t, "busy") {
			c := m.conns[rapid.IntRange(0, len(m.conns)-1).Draw(m.t, "busy one")]
			c.busy = c.Busy()
			if !c.busy {
				m.t.Fatal("an open one was told that it is closed")
			}
		}
	case 9:
		if !c.Idle(m.now) {
			m.t.Fatal("an open one was told that it is closed")
		}
		c.busy, c.since = false, m.now
	}
}
