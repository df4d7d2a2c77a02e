package spool

// blockSize is how much memory is taken at a time, in bytes.
const blockSize = 16 << 10

type block [blockSize]byte

// piece is a stretch of the queue: of a block of memory, or of the file.
type piece struct {
	block    *block // nil: in the file
	from, to int64  // in the block or in the file; from what is unread
}

// keep puts bytes in memory, as many as the last block has room for, or a new
// one. p.mu is held.
func (p *Spool) keep(b []byte) int {
	if p.roomInBlock() == 0 && !p.addBlock() {
		return 0
	}
	last := &p.pieces[len(p.pieces)-1]
	n := copy(last.block[last.to:], b)
	last.to += int64(n)
	p.unread += int64(n)
	return n
}

// roomInBlock is how many bytes fit in the queue's last block.
func (p *Spool) roomInBlock() int64 {
	if len(p.pieces) == 0 || p.pieces[len(p.pieces)-1].block == nil {
		return 0
	}
	return blockSize - p.pieces[len(p.pieces)-1].to
}

func (p *Spool) addBlock() bool {
	if p.blocksLeft == 0 || !p.reserve(memory, blockSize) {
		return false
	}
	p.blocksLeft--
	p.pieces = append(p.pieces, piece{block: p.store.blocks.Get().(*block)})
	return true
}

// dropBlock gives back the first piece's block.
func (p *Spool) dropBlock() {
	p.store.blocks.Put(p.pieces[0].block)
	p.pieces[0].block = nil
	p.pieces = p.pieces[1:]
	p.blocksLeft++
	p.store.release(p.account, memory, blockSize)
}

// reserve takes n bytes of a resource for this spool. p.mu is held.
func (p *Spool) reserve(of resource, n int64) bool {
	if p.account == nil {
		p.account = p.store.account(p.address)
	}
	short := p.store.reserve(p.account, of, n)
	p.tell(of, short)
	return short == none
}

// tell counts a lack of room once, until there is room again.
func (p *Spool) tell(of resource, short shortage) {
	if short != none && p.short[of] == none {
		p.store.count(short)
	}
	p.short[of] = short
}

// readBlock reads of the first piece, which is a block. p.mu is held.
func (p *Spool) readBlock(b []byte) int {
	first := &p.pieces[0]
	n := copy(b, first.block[first.from:first.to])
	first.from += int64(n)
	if first.from == first.to {
		p.dropBlock()
	}
	return n
}
