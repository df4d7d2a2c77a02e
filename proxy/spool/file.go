package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// spillStep is the largest number of bytes in one write to a file. It is small because the reader gets bytes
// only after their write has ended.
const spillStep = 256 << 10

// file is a temporary file.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// stretch is the part of the file that holds unread bytes. New bytes are written at its end, and bytes are
// read from its beginning. Once all of it has been read, the file is closed, which frees its disk space.
type stretch struct {
	file     file // open file; nil: none
	end      int64
	reserved int64 // bytes of the disk's budget that this file uses
	busy     bool  // whether the writer is writing to the file
}

// spill writes as many bytes to the file as it may hold. p.mu is held, except during the write.
func (p *Spool) spill(b []byte) int {
	f := &p.file
	b = b[:min(int64(len(b)), spillStep, p.most-f.end)] // a file with most bytes takes no more until it has been read to its end
	if len(b) == 0 || !p.reserve(disk, int64(len(b))) {
		return 0
	}
	f.reserved += int64(len(b))
	if f.file == nil && !p.openFile() {
		return 0
	}
	at, out := f.end, f.file
	f.busy = true
	p.mu.Unlock()
	n, err := out.WriteAt(b, at)
	p.mu.Lock()
	f.busy = false
	if p.gone {
		return 0 // the spool was closed in the meantime, and Close has given everything back
	}
	p.giveBack(int64(len(b) - n))
	if n > 0 {
		p.addStretch(at, at+int64(n))
	}
	if err != nil || n < len(b) {
		p.fileFailed()
	} else {
		p.tell(disk, none)
	}
	return n
}

// openFile opens the file. It returns false if it can't, or if the limit of open files is reached.
func (p *Spool) openFile() bool {
	p.store.mu.Lock()
	directory, most := p.store.limits.Directory, p.store.limits.Files
	p.store.mu.Unlock()
	if most == 0 || p.store.files.Load() < int64(most) {
		if f, err := p.store.open(directory); err == nil {
			p.store.files.Add(1)
			p.file.file = f
			return true
		}
	}
	p.fileFailed()
	p.giveBack(p.file.reserved)
	return false
}

// fileFailed records that a write to the file failed, at least in part. If the file has no unread bytes, it is
// closed.
func (p *Spool) fileFailed() {
	p.tell(disk, failure)
	if p.file.file != nil && !p.inFile() {
		p.closeFile()
	}
}

// addStretch adds the bytes that were written to the queue.
func (p *Spool) addStretch(from, to int64) {
	p.file.end = to
	p.unread += to - from
	if last := len(p.pieces) - 1; last >= 0 && p.pieces[last].block == nil {
		p.pieces[last].to = to // the new bytes follow those of the last piece directly
		return
	}
	p.pieces = append(p.pieces, piece{from: from, to: to})
}

// readFile reads from the first piece, which is in the file. p.mu is held, except while reading the file.
func (p *Spool) readFile(b []byte) (int, error) {
	first, in := p.pieces[0], p.file.file
	b = b[:min(int64(len(b)), first.to-first.from)]
	p.mu.Unlock()
	n, err := in.ReadAt(b, first.from)
	p.mu.Lock()
	switch {
	case p.gone:
		return 0, ErrClosed
	case n == 0:
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		p.fault = fmt.Errorf("spool: a buffered body can't be read: %w", err)
		return 0, p.fault
	}
	p.pieces[0].from += int64(n)
	if p.pieces[0].from == p.pieces[0].to {
		p.pieces = p.pieces[1:]
	}
	if !p.file.busy && !p.inFile() {
		p.closeFile()
	}
	return n, nil
}

// inFile reports whether the file has unread bytes. There may be bytes in memory before, between and after
// them.
func (p *Spool) inFile() bool {
	for _, piece := range p.pieces {
		if piece.block == nil {
			return true
		}
	}
	return false
}

// closeFile closes the file, which frees its disk space, and gives back its part of the budget.
func (p *Spool) closeFile() {
	f := &p.file
	if f.file != nil {
		_ = f.file.Close() // an error doesn't matter, because the file is no longer needed
		p.store.files.Add(-1)
	}
	p.giveBack(f.reserved)
	*f = stretch{}
}

// giveBack gives back n bytes of the disk's budget.
func (p *Spool) giveBack(n int64) {
	p.file.reserved -= n
	p.store.release(p.account, disk, n)
}

// Check returns nil if a directory is suitable for a Store's files. Otherwise the error says why: no file can
// be made there, or files there would be in memory.
func Check(directory string) error {
	f, err := openFile(directory)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if isMemory(directory) {
		return fmt.Errorf("%s is not on a disk: its files are in memory", directory)
	}
	return nil
}

// openFile makes a file and removes its name, so that nothing is left of the file when the process ends.
func openFile(directory string) (file, error) {
	f, err := os.CreateTemp(directory, "tempomat-spool-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// freeSpace returns how many bytes an ordinary user may still write to the directory's file system, and the
// total size of the file system.
func freeSpace(directory string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(directory, &s); err != nil {
		return 0, 0, err
	}
	unit := int64(s.Bsize)                                     //nolint:unconvert // it is shorter on 32 bits
	return int64(s.Bavail) * unit, int64(s.Blocks) * unit, nil //nolint:gosec // no disk has 8 EiB
}

// isMemory reports whether a directory's files are in memory.
func isMemory(directory string) bool {
	var s syscall.Statfs_t
	if syscall.Statfs(directory, &s) != nil {
		return false
	}
	kind := uint32(s.Type) //nolint:gosec // 32 bits, with a sign on some machines
	return kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC
}
