package spool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// spillStep is the most bytes that one write to a file has: the reader gets
	// them as it ends.
	spillStep = 256 << 10
	// punchStep is how many bytes of a file are read before they are given back.
	punchStep = 1 << 20
	// retryAfter is how many bytes a spool passes on without a file after one
	// failed it, until it tries again.
	retryAfter = 64 << 10
)

// file is a temporary file. One that is also a puncher gives back what has been
// read before it is closed.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

type puncher interface {
	Punch(from, n int64) error // gives back the room of n bytes
}

// stretch is the part of the file that is in use. Bytes are written at its end
// and read at its beginning; a file that has been read to its end is closed.
type stretch struct {
	file     file // nil: none is open
	punched  int64
	end      int64
	reserved int64 // bytes of the budget
	busy     bool  // the writer writes
	retry    int64 // no file is used before Spool.read is so far
}

// spill puts bytes in the file, as many as it takes. p.mu is held, but not
// while it writes.
func (p *Spool) spill(b []byte) int {
	f := &p.file
	if p.read < f.retry {
		return 0
	}
	b = b[:min(len(b), spillStep)]
	if !p.reserve(disk, int64(len(b))) {
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
		return 0 // Close has given everything back
	}
	p.giveBack(int64(len(b) - n))
	if n > 0 {
		p.addStretch(at, at+int64(n))
	}
	if err != nil || n < len(b) {
		p.fileFailed()
	}
	return n
}

// errFiles: the limit of open files is reached.
var errFiles = errors.New("spool: too many files are open")

// openFile opens the file; false if it cannot.
func (p *Spool) openFile() bool {
	p.store.mu.Lock()
	directory, most := p.store.limits.Directory, p.store.limits.Files
	p.store.mu.Unlock()
	var f file
	err := errFiles
	if most == 0 || p.store.files.Load() < int64(most) {
		f, err = p.store.open(directory)
	}
	if err != nil {
		p.fileFailed()
		p.giveBack(p.file.reserved)
		return false
	}
	p.store.files.Add(1)
	p.file.file = f
	return true
}

// fileFailed lets the spool do without a file for a while.
func (p *Spool) fileFailed() {
	p.tell(disk, failure)
	p.file.retry = p.read + retryAfter
	if p.file.file != nil && !p.inFile() {
		p.closeFile()
	}
}

// addStretch adds what was written to the queue.
func (p *Spool) addStretch(from, to int64) {
	p.file.end = to
	p.unread += to - from
	if last := len(p.pieces) - 1; last >= 0 && p.pieces[last].block == nil {
		p.pieces[last].to = to // the file's pieces follow one another in it
		return
	}
	p.pieces = append(p.pieces, piece{from: from, to: to})
}

// readFile reads of the first piece, which is in the file. p.mu is held, but
// not while it reads.
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
		p.fault = fmt.Errorf("spool: a buffered body cannot be read: %w", err)
		return 0, p.fault
	}
	p.pieces[0].from += int64(n)
	if p.pieces[0].from == p.pieces[0].to {
		p.pieces = p.pieces[1:]
	}
	if !p.file.busy && !p.inFile() {
		p.closeFile()
	} else {
		p.punch(first.from + int64(n))
	}
	return n, nil
}

// punch gives back the room of what was read, up to an offset. p.mu is held,
// but not while the file system works.
func (p *Spool) punch(to int64) {
	f := &p.file
	in := f.file
	hole, ok := in.(puncher)
	from, n := f.punched, to-f.punched
	if !ok || n < punchStep {
		return
	}
	n -= n % punchStep
	p.mu.Unlock()
	err := hole.Punch(from, n)
	p.mu.Lock()
	if f.file != in {
		return // closed in the meantime, which has given everything back
	}
	f.punched += n
	if err == nil { // else it stays in use until the file is closed
		p.giveBack(n)
	}
}

// inFile reports whether the file has bytes that are unread. Those in memory lie
// before them, after them or between them.
func (p *Spool) inFile() bool {
	for _, piece := range p.pieces {
		if piece.block == nil {
			return true
		}
	}
	return false
}

// closeFile closes the file, which is its end, and gives back its room.
func (p *Spool) closeFile() {
	f := &p.file
	if f.file != nil {
		_ = f.file.Close() // it has no name, and nothing in it is needed
		p.store.files.Add(-1)
	}
	p.giveBack(f.reserved)
	*f = stretch{retry: f.retry}
}

// giveBack gives back n bytes of the disk.
func (p *Spool) giveBack(n int64) {
	p.file.reserved -= n
	p.store.release(p.account, disk, n)
}

// Check says why a directory is unfit for a Store's files: none can be made
// there, or they would be in memory; nil if it is fit.
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

// createFile makes a file and takes its name away, for file systems that
// cannot make one without.
func createFile(directory string) (file, error) {
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // only names were made and removed in it
	name := "tempomat-spool-" + rand.Text()
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := root.Remove(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
