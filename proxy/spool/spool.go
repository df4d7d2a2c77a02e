package spool

import (
	"errors"
	"io"
	"net/netip"
	"sync"
)

// ErrClosed is what a closed spool's writer and reader get.
var ErrClosed = errors.New("spool: closed")

// Spool is a queue of bytes between one writer and one reader. Write, TryWrite
// and CloseWrite are for the writer's goroutine, Read for the reader's; all
// other methods are for anybody.
type Spool struct {
	store   *Store
	address netip.Addr
	most    int64

	mu                 sync.Mutex // not held while a file is written or read
	readable, writable sync.Cond

	pieces     []piece // what is kept, oldest first
	unread     int64   // bytes in pieces
	read       int64   // bytes that the reader ever took
	lent       []byte  // the waiting writer's bytes, next after pieces
	blocksLeft int     // how many more the spool may have
	account    *account
	short      [resources]shortage // told already

	file  stretch
	ended bool  // by CloseWrite
	end   error // what the reader gets after the last byte
	fault error // the file could not be read
	gone  bool  // by Close
}

// Write takes all of b. Where there is no room for it, it waits for the reader.
// The error is ErrClosed after Close or CloseWrite, or why a file could not be
// read back, which the reader gets too; n is how many bytes were taken before.
func (p *Spool) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		n += p.enqueue(b[n:])
		if err := p.refusal(); err != nil {
			return n, err
		}
		if n == len(b) {
			return n, nil
		}
		n += p.lend(b[n:])
	}
}

// TryWrite takes what there is room for now and returns how much; it does not
// wait for the reader. It is for who has another use for the rest.
func (p *Spool) TryWrite(b []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enqueue(b)
}

// refusal is why nothing is written any more; nil if it is.
func (p *Spool) refusal() error {
	switch {
	case p.gone || p.ended:
		return ErrClosed
	default:
		return p.fault
	}
}

// enqueue puts what there is room for at the queue's end, in memory before the
// file. p.mu is held, but not while the file is written.
func (p *Spool) enqueue(b []byte) (n int) {
	for n < len(b) && p.refusal() == nil && p.unread < p.most {
		next := b[n:]
		next = next[:min(int64(len(next)), p.most-p.unread)]
		took := p.keep(next)
		if took == 0 {
			took = p.spill(next)
		}
		if took == 0 {
			break
		}
		n += took
		p.readable.Signal()
	}
	return n
}

// lend lets the reader take b from the writer's hands. It returns how much was
// taken as soon as all is, or there may be room for the rest.
func (p *Spool) lend(b []byte) int {
	p.lent = b
	p.readable.Signal()
	p.writable.Wait()
	n := len(b) - len(p.lent)
	p.lent = nil // b is the caller's
	return n
}

// CloseWrite ends the queue. After its last byte the reader gets err, io.EOF if
// that is nil. What comes after the first CloseWrite has no effect.
func (p *Spool) CloseWrite(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	if err == nil {
		err = io.EOF
	}
	p.ended, p.end = true, err
	p.readable.Signal()
	p.writable.Signal()
}

// Read takes up to len(b) bytes, the oldest first, and waits for one. The error
// is that of CloseWrite, ErrClosed after Close, or why the file could not be
// read: then bytes are lost, and nothing is read any more.
func (p *Spool) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.gone:
			return 0, ErrClosed
		case p.fault != nil:
			return 0, p.fault
		case len(p.pieces) > 0:
			return p.readPiece(b)
		case len(p.lent) > 0:
			n := copy(b, p.lent)
			p.lent = p.lent[n:]
			p.took(n)
			return n, nil
		case p.ended:
			return 0, p.end
		}
		p.readable.Wait()
	}
}

// readPiece reads of the oldest piece.
func (p *Spool) readPiece(b []byte) (n int, err error) {
	if p.pieces[0].block != nil {
		n = p.readBlock(b)
	} else {
		n, err = p.readFile(b)
	}
	if !p.gone {
		p.unread -= int64(n)
	}
	p.took(n)
	return n, err
}

// took wakes the writer: there may be room.
func (p *Spool) took(n int) {
	p.read += int64(n)
	p.writable.Signal()
}

// Buffered is how many bytes are kept that have not been read. What a waiting
// writer still holds is not among them.
func (p *Spool) Buffered() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unread
}

// Waiting reports whether the writer waits for the reader.
func (p *Spool) Waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lent) > 0
}

// Close throws away what has not been read, gives everything back and wakes
// both sides. It may be called again.
func (p *Spool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	p.gone = true
	for len(p.pieces) > 0 {
		if p.pieces[0].block != nil {
			p.dropBlock()
			continue
		}
		p.pieces = p.pieces[1:]
	}
	p.pieces, p.unread = nil, 0
	p.closeFile()
	p.store.leave(p.account)
	p.account = nil
	p.store.spools.Add(-1)
	p.readable.Signal()
	p.writable.Signal()
}

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
