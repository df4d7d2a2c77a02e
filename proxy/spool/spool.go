package spool

import (
	"errors"
	"io"
	"net/netip"
	"sync"
)

// ErrClosed is the error that the writer and the reader of a closed spool get.
var ErrClosed = errors.New("spool: closed")

// Spool is a queue of bytes between one writer and one reader. The writer's goroutine calls Write, TryWrite
// and CloseWrite, the reader's calls Read. Any goroutine may call the other methods.
type Spool struct {
	store   *Store
	address netip.Addr
	most    int64

	mu                 sync.Mutex // guards the fields below; it isn't held while a file is written or read
	readable, writable sync.Cond

	pieces     []piece // kept bytes, the oldest first
	unread     int64   // number of bytes in pieces
	lent       []byte  // bytes of the waiting writer, which follow those in pieces
	blocksLeft int     // number of blocks that the spool may still take
	account    *account
	short      [resources]shortage // shortages that tell has already counted

	file  stretch
	ended bool  // whether CloseWrite was called
	end   error // error that the reader gets after the last byte
	fault error // why the file could not be read
	gone  bool  // whether Close was called
}

// Write takes all of b. If there is no room, it waits for the reader. The error is ErrClosed after Close or
// CloseWrite. If the file couldn't be read back, the error says why, and the reader gets the same error. n is
// how many bytes were taken before the error.
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

// TryWrite takes as many bytes as there is room for now, and returns how many. It doesn't wait for the
// reader.
func (p *Spool) TryWrite(b []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enqueue(b)
}

// refusal returns why no more bytes can be written; nil: bytes can be written.
func (p *Spool) refusal() error {
	switch {
	case p.gone || p.ended:
		return ErrClosed
	default:
		return p.fault
	}
}

// enqueue puts as many bytes as there is room for at the end of the queue, in memory first, then in the file.
// p.mu is held, but not while the file is written.
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

// lend lets the reader take bytes of b directly from the writer. It waits until all of b is taken, or until
// there may be room in the spool for the rest, and returns how many bytes were taken.
func (p *Spool) lend(b []byte) int {
	p.lent = b
	p.readable.Signal()
	p.writable.Wait()
	n := len(b) - len(p.lent)
	p.lent = nil // b belongs to the caller again
	return n
}

// CloseWrite ends the queue. After the last byte the reader gets err, or io.EOF if err is nil. Only the first
// call has an effect.
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

// Read takes up to len(b) bytes, the oldest first, and waits until there is at least one. The error is that of
// CloseWrite, or ErrClosed after Close. If the file can't be read, the error says why. Some bytes are then
// lost, and no more can be read.
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
			p.took()
			return n, nil
		case p.ended:
			return 0, p.end
		}
		p.readable.Wait()
	}
}

// readPiece reads from the oldest piece.
func (p *Spool) readPiece(b []byte) (n int, err error) {
	if p.pieces[0].block != nil {
		n = p.readBlock(b)
	} else {
		n, err = p.readFile(b)
	}
	if !p.gone {
		p.unread -= int64(n)
	}
	p.took()
	return n, err
}

// took wakes the writer, because there may be room.
func (p *Spool) took() { p.writable.Signal() }

// Buffered returns how many unread bytes the spool holds, not counting the bytes of a waiting writer.
func (p *Spool) Buffered() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unread
}

// Close drops the unread bytes, releases memory and disk space, and wakes both sides. It may be called again.
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

// blockSize is the size, in bytes, of the blocks in which memory is reserved.
const blockSize = 16 << 10

type block [blockSize]byte

// piece is a part of the queue, in a block of memory or in the file.
type piece struct {
	block    *block // block of memory; nil: the piece is in the file
	from, to int64  // bounds of the unread part, in the block or in the file
}

// keep puts bytes in memory: as many as fit into the last block or, if it is full, into a new one. p.mu is held.
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

// roomInBlock returns how many bytes fit in the queue's last block.
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
	if short != none || of == memory { // the disk has room, but the write may still fail, so no shortage is cleared yet
		p.tell(of, short)
	}
	return short == none
}

// tell counts a shortage, but only once until there is room again.
func (p *Spool) tell(of resource, short shortage) {
	if short != none && p.short[of] == none {
		p.store.short[short].Add(1)
	}
	p.short[of] = short
}

// readBlock reads from the first piece, which is a block. p.mu is held.
func (p *Spool) readBlock(b []byte) int {
	first := &p.pieces[0]
	n := copy(b, first.block[first.from:first.to])
	first.from += int64(n)
	if first.from == first.to {
		p.dropBlock()
	}
	return n
}
