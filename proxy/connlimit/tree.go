package connlimit

import "math/bits"

// What a network weighs: one for so many of its connections.
const (
	narrowPart = 16
	widePart   = 64
)

// total is what is known of a part of the tree.
type total struct {
	open    int32 // connections
	counted int32 // the same, but few of each trusted address
	// weight is that of the heaviest address or network here; 0: there is nothing to
	// give. oldest is since when the one waits that would go.
	weight int32
	oldest int64
	// fullest is what the address holds that holds most, of those that are not trusted.
	fullest int32
}

// before tells whether one part gives before another.
func (t total) before(other total) bool {
	if t.weight != other.weight {
		return t.weight > other.weight
	}
	return t.oldest < other.oldest
}

// node is a part of the tree: a *branch or an *address.
type node interface {
	total() total
	hangFrom(*branch)
}

// branch is where two parts of the tree part: all addresses under it have the same bits
// before its own, those of children[0] have a 0 there and those of children[1] a 1.
type branch struct {
	children [2]node
	parent   *branch // nil: it is the root

	// The sum of the children, and which of them gives. One by one, as a total would
	// take 8 bytes more.
	oldest                int64
	open, counted, weight int32
	fullest               int32
	bit, gives            uint8
}

func (b *branch) total() total {
	return total{open: b.open, counted: b.counted, weight: b.weight, oldest: b.oldest, fullest: b.fullest}
}

func (b *branch) hangFrom(parent *branch) { b.parent = parent }

// side is on which side of the branch a key lies.
func (b *branch) side(key uint64) uint8 {
	return uint8(key >> (whole - 1 - b.bit) & 1)
}

// sum adds up the children. It returns false if the total is what it was.
func (b *branch) sum() bool {
	was := b.total()
	left, right := b.weigh(0), b.weigh(1)
	b.gives = 0
	best := left
	if right.before(left) {
		b.gives, best = 1, right
	}
	b.open, b.counted = left.open+right.open, left.counted+right.counted
	b.weight, b.oldest = best.weight, best.oldest
	b.fullest = max(left.fullest, right.fullest)
	return b.total() != was
}

// weigh returns the total of a child, with the weight of the networks that it is all of.
func (b *branch) weigh(side int) total {
	t := b.children[side].total()
	child, ok := b.children[side].(*branch)
	if !ok || t.weight == 0 {
		return t // an address weighs more than the part of its network that it is
	}
	if b.bit < narrow && child.bit >= narrow {
		t.weight = max(t.weight, t.counted/narrowPart)
	}
	if b.bit < wide && child.bit >= wide {
		t.weight = max(t.weight, t.counted/widePart)
	}
	return t
}

// tree is the root of all; nil: there is no address.
type tree struct{ root node }

// heaviest returns the address that gives next, and what it or its network weighs; nil if
// none has anything to give.
func (t *tree) heaviest() (a *address, weight int32) {
	if t.root == nil {
		return nil, 0
	}
	if weight = t.root.total().weight; weight == 0 {
		return nil, 0
	}
	return giver(t.root), weight
}

// giver returns the address under a part that gives next, if one there has anything to.
func giver(n node) *address {
	for {
		b, ok := n.(*branch)
		if !ok {
			return n.(*address)
		}
		n = b.children[b.gives]
	}
}

// fullest returns the address under a part that holds most, of those that are not
// trusted; nil if there is none.
func fullest(n node) *address {
	if n.total().fullest == 0 {
		return nil
	}
	for {
		b, ok := n.(*branch)
		if !ok {
			return n.(*address)
		}
		n = b.children[0]
		if n.total().fullest < b.fullest {
			n = b.children[1]
		}
	}
}

// crowd returns the network that holds most, of the narrow ones that hold more than
// inNarrow, else of the wide ones that hold more than inWide; nil: none does. Only parts
// that hold so many are looked at, which are few.
func (t *tree) crowd(inNarrow, inWide int32) *branch {
	c := crowd{inNarrow: inNarrow, inWide: inWide}
	c.look(t.root, 0)
	if c.narrow != nil {
		return c.narrow
	}
	return c.wide
}

type crowd struct {
	inNarrow, inWide int32
	narrow, wide     *branch
}

// look goes through what is under a part; above is the bit of the branch that it hangs
// from. An address is no network: what it holds alone is for others to judge.
func (c *crowd) look(n node, above uint8) {
	b, ok := n.(*branch)
	if !ok || b.counted <= min(c.inNarrow, c.inWide) || b.fullest == 0 {
		return
	}
	if above < wide && b.bit >= wide && b.counted > c.inWide && (c.wide == nil || b.counted > c.wide.counted) {
		c.wide = b
	}
	if b.bit >= narrow {
		if b.counted > c.inNarrow && (c.narrow == nil || b.counted > c.narrow.counted) {
			c.narrow = b
		}
		return
	}
	c.look(b.children[0], b.bit)
	c.look(b.children[1], b.bit)
}

// closest returns the address with a key, or one that has as many bits in common with it
// as any; nil if there is none at all.
func (t *tree) closest(key uint64) *address {
	n := t.root
	for {
		b, ok := n.(*branch)
		if !ok {
			a, _ := n.(*address)
			return a
		}
		n = b.children[b.side(key)]
	}
}

// find returns the address with a key. It adds one that holds nothing yet if there is
// none.
func (t *tree) find(key uint64, table *Table) *address {
	near := t.closest(key)
	if near != nil && near.key == key {
		return near
	}
	a := &address{table: table, key: key}
	if near == nil {
		t.root = a
		return a
	}
	fork := &branch{bit: uint8(bits.LeadingZeros64(near.key ^ key))} //nolint:gosec // at most 63
	var under node = near
	above := near.parent
	for above != nil && above.bit > fork.bit {
		under, above = above, above.parent
	}
	side := fork.side(key)
	fork.children[side], fork.children[1-side] = a, under
	a.parent = fork
	under.hangFrom(fork)
	t.hang(fork, above, key)
	return a
}

// remove takes out an address.
func (t *tree) remove(a *address) {
	fork := a.parent
	a.parent, a.conns = nil, nil // its connections may be remembered for longer
	if fork == nil {
		t.root = nil
		return
	}
	t.hang(fork.children[1-fork.side(a.key)], fork.parent, a.key)
	sumUp(fork.parent)
}

// hang puts a part under a branch, on the side of a key; under nil it is the root.
func (t *tree) hang(n node, under *branch, key uint64) {
	n.hangFrom(under)
	if under == nil {
		t.root = n
		return
	}
	under.children[under.side(key)] = n
}

// sumUp adds up a branch and all that it is part of.
func sumUp(b *branch) {
	for b != nil && b.sum() {
		b = b.parent
	}
}
