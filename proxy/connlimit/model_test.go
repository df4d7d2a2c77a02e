package connlimit

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// verify checks what always holds of a table that nobody uses at the moment.
func verify(t rapid.TB, table *Table) {
	t.Helper()
	open, addresses := 0, 0
	var walk func(n node, parent *branch)
	walk = func(n node, parent *branch) {
		if b, ok := n.(*branch); ok {
			if was := b.total(); b.parent != parent || b.sum() {
				t.Fatalf("a branch was not added up: %+v, is %+v", was, b.total())
			}
			for side, child := range b.children {
				if c, ok := child.(*branch); ok && c.bit <= b.bit {
					t.Fatalf("bit %d is under %d", c.bit, b.bit)
				}
				if a, ok := child.(*address); ok && int(b.side(a.key)) != side {
					t.Fatal("an address is on the wrong side")
				}
				walk(child, b)
			}
			return
		}
		a := n.(*address)
		addresses++
		open += len(a.conns)
		if a.parent != parent || len(a.conns) == 0 || table.tree.closest(a.key) != a {
			t.Fatalf("an address with %d connections is in the wrong place", len(a.conns))
		}
		for i, c := range a.conns {
			state, inLine := c.state.Load(), i < int(a.inLine)
			switch {
			case c.at != int32(i) || c.address != a:
				t.Fatal("a connection is in the wrong place")
			case inLine != (state&activity != passedOver) || state&activity == gone:
				t.Fatalf("state %d, in line: %v", state, inLine)
			case inLine && i > 0 && a.conns[(i-1)/2].since > c.since:
				t.Fatal("the line is not in order")
			case state&activity == waiting && state>>sinceShift < c.since:
				t.Fatal("it has waited for longer than its place says")
			}
		}
	}
	if table.tree.root != nil {
		walk(table.tree.root, nil)
	}
	if open != int(table.open) || addresses != table.addresses || open > int(table.most) {
		t.Fatalf("%d connections of %d addresses, counted %d and %d of %d", open, addresses, table.open, table.addresses, table.most)
	}
}

// modelConn is a connection as the model knows it.
type modelConn struct {
	*Conn
	flag
	address netip.Addr
	trusted bool
	busy    bool
	since   time.Time
}

// claim is what the model knows of an address or a network.
type claim struct {
	weight, counted int
	oldest          *modelConn // that waits; nil: only requests are left to give
	// A network that weighs more than its addresses may have others that weigh alike. Which
	// of them has somebody who waited for longer, the table sees only when it looks into
	// it: either's is right.
	network bool
	or      []*modelConn
	fullest int   // a request of who holds so many
	alike   []int // or of who holds so many, of another network that is as full
}

func (c claim) before(other claim) bool {
	switch {
	case c.weight != other.weight:
		return c.weight > other.weight
	case c.oldest == nil || other.oldest == nil:
		return other.oldest == nil
	}
	return c.oldest.since.Before(other.oldest.since)
}

// model says who has to go by the rules of the package doc, without a tree or a heap.
type model struct{ few, many, large, most int }

// claim returns that of all.
func (m model) claim(conns []*modelConn) claim {
	c := m.claimOf(conns, 0)
	held := make(map[netip.Addr]int)
	for _, s := range conns {
		held[s.address]++
	}
	if c.weight > m.few {
		return c
	}
	fullest := 0
	for _, s := range conns {
		if !s.trusted {
			fullest = max(fullest, held[s.address])
		}
	}
	if fullest <= m.many {
		return m.crowd(conns, c)
	}
	return claim{weight: fullest, fullest: fullest} // one of its requests
}

// crowd returns the claim of the network that has a large part of all; c if none has.
func (m model) crowd(conns []*modelConn, c claim) claim {
	for _, by := range []struct{ depth, most int }{{2, max(m.most/crowdNarrow, m.few)}, {1, max(m.most/crowdWide, m.few)}} {
		parts := make(map[netip.Prefix][]*modelConn)
		for _, s := range conns {
			p, _ := s.address.Prefix(prefixLength(s.address, by.depth-1))
			parts[p] = append(parts[p], s)
		}
		var best claim
		for _, conns := range parts {
			p := m.claimOf(conns, by.depth)
			held := make(map[netip.Addr]int)
			for _, s := range conns {
				if held[s.address]++; !s.trusted {
					p.fullest = max(p.fullest, held[s.address])
				}
			}
			switch {
			case p.fullest == 0 || len(held) == 1 || p.counted <= by.most || p.counted < best.counted:
				continue
			case p.counted == best.counted: // either's is right
				p.or = append(append(p.or, best.or...), best.oldest, p.oldest)
				p.alike = append(append(best.alike, best.fullest), p.fullest)
			}
			best = p
		}
		if best.counted > 0 {
			best.weight = max(best.weight, 1)
			return best
		}
	}
	return c
}

// prefixLength is that of a wide network (0), of a narrow one, or of an address (2).
func prefixLength(a netip.Addr, depth int) int {
	if a.Is4() {
		return []int{16, 24, 32}[depth]
	}
	return []int{32, 48, 64}[depth]
}

// claimOf returns the claim of some connections: of all (depth 0), of a wide network, of
// a narrow one, or of an address (3).
func (m model) claimOf(conns []*modelConn, depth int) (c claim) {
	if depth == 3 {
		return m.claimOfAddress(conns)
	}
	parts := make(map[netip.Prefix][]*modelConn)
	for _, s := range conns {
		p, _ := s.address.Prefix(prefixLength(s.address, depth))
		parts[p] = append(parts[p], s)
	}
	counted := 0
	for _, conns := range parts {
		p := m.claimOf(conns, depth+1)
		counted += p.counted
		if p.weight == c.weight && (p.network || c.network) {
			p.or = append(append(p.or, c.or...), c.oldest, p.oldest)
			c.or, c.network, p.network = p.or, true, true
		}
		if p.before(c) {
			c = p
		}
	}
	c.counted = counted
	if share := []int{0, 64, 16}[depth]; c.weight > 0 && share > 0 && counted/share > c.weight {
		c.weight, c.network = counted/share, true
	}
	return c
}

func (m model) claimOfAddress(conns []*modelConn) claim {
	c := claim{counted: len(conns)}
	trusted := conns[0].trusted
	if trusted {
		c.counted = min(m.few, c.counted)
	}
	for _, s := range conns {
		if !s.busy && (c.oldest == nil || s.since.Before(c.oldest.since)) {
			c.oldest = s
		}
	}
	if c.oldest != nil || !trusted && len(conns) > m.large {
		c.weight = max(m.few, c.counted)
	}
	return c
}

// modelled is a table and its model.
type modelled struct {
	t     *rapid.T
	table *Table
	model model
	now   time.Time
	conns []*modelConn
}

func (m *modelled) enter(a netip.Addr) {
	c := &modelConn{address: a, trusted: a.String() == balancer, since: m.now}
	before := m.table.Stats(0)
	m.conns = append(m.conns, c)
	full := len(m.conns) > before.Most
	want := m.model.claim(m.conns)
	c.Conn = m.table.Enter(m.now, a, c.trusted, c)
	if !full {
		m.expectNone()
		return
	}
	m.expect(want)
	after := m.table.Stats(0)
	if refused := c.Conn == nil; after.Refused != before.Refused+uint64(btoi(refused)) || after.Shed != before.Shed+uint64(btoi(!refused)) {
		m.t.Fatalf("counted %+v, then %+v", before, after)
	}
}

func (m *modelled) expectNone() {
	for _, c := range m.conns {
		if c.closed > 0 {
			m.t.Fatalf("one of %s was closed below the bound", c.address)
		}
	}
}

// expect checks which connection was closed, and takes it out.
func (m *modelled) expect(want claim) {
	victim := -1
	for i, c := range m.conns {
		if c.closed > 0 {
			if victim >= 0 || c.closed > 1 {
				m.t.Fatal("more than one was closed")
			}
			victim = i
		}
	}
	if want.weight == 0 {
		if victim >= 0 {
			m.t.Fatal("one was closed though nobody had anything to give")
		}
		return
	}
	if victim < 0 {
		m.t.Fatal("none was closed")
	}
	got := m.conns[victim]
	switch {
	case slices.Contains(want.or, got):
	case want.oldest == nil || got.busy && len(want.alike) > 0:
		same := 0
		for _, c := range m.conns {
			same += btoi(c.address == got.address)
		}
		if !got.busy || want.fullest > 0 && same != want.fullest && !slices.Contains(want.alike, same) || want.fullest == 0 && same <= m.model.large {
			m.t.Fatalf("one of %s was closed, which has %d", got.address, same)
		}
	case got != want.oldest:
		m.t.Fatalf("one of %s was closed, want one of %s", got.address, want.oldest.address)
	}
	m.conns = slices.Delete(m.conns, victim, victim+1)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// someAddress draws one of those that have much in common.
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

// Whatever comes and goes, the table closes what the model says.
func TestAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{3, 30, 200}).Draw(t, "most")
		table := New(start, most)
		table.few = rapid.Int32Range(1, 8).Draw(t, "few") // the networks of a small table weigh less otherwise
		table.many, table.large = 2*table.few, max(table.few, int32(most/4))
		m := &modelled{t: t, table: table, model: model{few: int(table.few), many: int(table.many), large: int(table.large), most: most}, now: start}
		for i := range 2 * most {
			m.now = m.now.Add(time.Millisecond)
			m.step()
			if i%8 == 0 {
				verify(t, table)
			}
		}
		verify(t, table)
		for _, c := range m.conns {
			c.Leave()
		}
		if s := table.Stats(1); s.Open != 0 || s.Addresses != 0 || table.tree.root != nil {
			t.Fatalf("all have left: %+v", s)
		}
	})
}

// step does one thing, more often what fills the table.
func (m *modelled) step() {
	action := rapid.IntRange(0, 9).Draw(m.t, "action")
	if len(m.conns) == 0 || action < 5 {
		for range rapid.IntRange(1, 3).Draw(m.t, "newcomers") {
			m.now = m.now.Add(time.Millisecond)
			m.enter(someAddress(m.t))
		}
		return
	}
	if action == 5 {
		want := m.model.claim(m.conns)
		if m.table.Shed() != (want.weight > 0) {
			m.t.Fatalf("Shed closed something: %v", want.weight == 0)
		}
		m.expect(want)
		return
	}
	i := rapid.IntRange(0, len(m.conns)-1).Draw(m.t, "which")
	c := m.conns[i]
	switch action {
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
