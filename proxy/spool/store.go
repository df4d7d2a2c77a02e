// Package spool keeps bytes for a reader that is slower than their writer:
// first in memory, then in a temporary file that has no name. What all spools
// together may keep is bounded, and so is what those of one address may.
//
// Room that is missing never costs a byte and never ends a transfer: the writer
// waits until the reader has taken the bytes from its hands. A full file
// system, a missing directory and a lack of file descriptors are such a lack of
// room; they are counted, not returned.
//
// The package starts no goroutine and reads no clock.
package spool

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"tempomat/proxy/connlimit"
)

// Limits bound what the spools of a Store keep.
type Limits struct {
	// Directory is where temporary files are. It should be on a disk: what is
	// written to a tmpfs stays in memory.
	Directory string
	// Memory is the most bytes in memory of all spools together. It is given
	// out in blocks of 16 KiB.
	Memory int64
	// Disk is the most bytes in files of all spools together. 0: half of what
	// the file system has free as the first file is written. Whatever it is,
	// the last tenth of the file system is left alone.
	Disk int64
	// Files is the most files that are open at a time; 0: any number.
	Files int
	// Address is the part of Memory and of Disk that the spools of one address
	// may use, above 0 to 1. An IPv6 address stands for its /64.
	Address float64
}

// Stats tell how full a Store is, and how often spools found no room since it
// was made. A spool that goes on without room is counted once, until it finds
// some again.
type Stats struct {
	Memory int64 `json:"memory"` // bytes of memory in use, whole blocks
	Disk   int64 `json:"disk"`   // bytes in files
	Files  int64 `json:"files"`  // files open
	Spools int64 `json:"spools"` // spools open

	NoMemory  uint64 `json:"noMemory"`  // Limits.Memory was in use: the bytes went to a file
	NoDisk    uint64 `json:"noDisk"`    // Limits.Disk was in use, or the file system full: the writer waited
	NoAddress uint64 `json:"noAddress"` // one address had its part of the memory or of the disk
	Errors    uint64 `json:"errors"`    // a file could not be made or written
}

// Store is the budget of many spools. All methods may be called concurrently.
type Store struct {
	blocks sync.Pool // of *block
	open   func(directory string) (file, error)
	free   func(directory string) (free, total int64, err error)

	spools, files                       atomic.Int64
	noMemory, noDisk, noAddress, errors atomic.Uint64

	mu       sync.Mutex // guards the following; taken after a Spool's
	limits   Limits
	used     [resources]int64
	accounts map[netip.Addr]*account // of addresses whose spools keep something
	space    space
}

// resource is what is rationed.
type resource int

const (
	memory resource = iota
	disk
	resources
)

// account is what the spools of one address use.
type account struct {
	address netip.Addr
	used    [resources]int64
	spools  int // that hold the account
}

// shortage is why there is no room.
type shortage int

const (
	none shortage = iota
	noMemory
	noDisk
	noAddress
	failure
)

// NewStore makes a Store. It opens nothing and looks at no file system.
func NewStore(l Limits) *Store {
	s := &Store{open: openFile, free: freeSpace, limits: l, accounts: make(map[netip.Addr]*account)}
	s.blocks.New = func() any { return new(block) }
	return s
}

// SetLimits puts other limits in force. What is kept stays, also if it is more.
func (s *Store) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.Directory != s.limits.Directory {
		s.space = space{}
	}
	s.limits = l
}

// Stats returns the state of this moment.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	used := s.used
	s.mu.Unlock()
	return Stats{
		Memory: used[memory], Disk: used[disk], Files: s.files.Load(), Spools: s.spools.Load(),
		NoMemory: s.noMemory.Load(), NoDisk: s.noDisk.Load(), NoAddress: s.noAddress.Load(), Errors: s.errors.Load(),
	}
}

// Open makes an empty spool whose bytes address answers for; the zero Addr is
// nobody's, bounded only with all others together. The spool keeps at most
// memory bytes in memory, rounded down to blocks of 16 KiB but not to none, and
// at most most bytes unread in all; 0 keeps nothing, so that each Write waits
// for the reader. It holds nothing until something has to be kept. Close it.
func (s *Store) Open(address netip.Addr, memory, most int64) *Spool {
	s.spools.Add(1)
	p := &Spool{store: s, address: connlimit.ClientOf(address), most: most}
	p.blocksLeft = int(memory / blockSize)
	if memory > 0 && p.blocksLeft == 0 {
		p.blocksLeft = 1
	}
	p.readable.L, p.writable.L = &p.mu, &p.mu
	return p
}

// account returns the account of an address, for one more spool; nil of nobody.
func (s *Store) account(address netip.Addr) *account {
	if !address.IsValid() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[address]
	if a == nil {
		a = &account{address: address}
		s.accounts[address] = a
	}
	a.spools++
	return a
}

// leave gives up one spool's hold of an account; nil is nobody's.
func (s *Store) leave(a *account) {
	if a == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.spools--; a.spools == 0 {
		delete(s.accounts, a.address)
	}
}

// reserve takes n bytes of a resource, all of them or none.
func (s *Store) reserve(a *account, of resource, n int64) shortage {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, short := s.limits.Memory, noMemory
	if of == disk {
		if limit, short = s.diskLimit(); short == failure {
			return failure
		}
	}
	switch {
	case s.used[of]+n > limit:
		return short
	case a != nil && float64(a.used[of]+n) > s.limits.Address*float64(limit):
		return noAddress
	case of == disk:
		if short := s.space.spend(s, n); short != none {
			return short
		}
	}
	s.used[of] += n
	if a != nil {
		a.used[of] += n
	}
	return none
}

// release gives back what reserve took.
func (s *Store) release(a *account, of resource, n int64) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[of] -= n
	if a != nil {
		a.used[of] -= n
	}
}

// count counts a lack of room.
func (s *Store) count(why shortage) {
	switch why {
	case noMemory:
		s.noMemory.Add(1)
	case noDisk:
		s.noDisk.Add(1)
	case noAddress:
		s.noAddress.Add(1)
	case failure:
		s.errors.Add(1)
	case none:
	}
}

const (
	// lookEvery is how many bytes are written between two looks at the file
	// system. Counting bytes needs no clock, and who writes little cannot fill it.
	lookEvery = 64 << 20
	// lookAgain is how many times room is refused after a look that found none,
	// until there is another: a system call for each would be waste.
	lookAgain = 64
	// leftAlone is the part of the file system, one in so many, that is never
	// used: others need room to work, and to log that there is little.
	leftAlone = 10
)

// space is what is known of the file system of the temporary files.
type space struct {
	half    int64    // of what was free at the first look; 0: none has been taken
	unseen  int64    // bytes that may be written before the next look
	refused int      // requests to refuse before the next look
	why     shortage // they are refused for
}

// diskLimit is the most bytes in files. s.mu is held.
func (s *Store) diskLimit() (int64, shortage) {
	if s.limits.Disk > 0 {
		return s.limits.Disk, noDisk
	}
	if s.space.half == 0 {
		if short := s.space.look(s, 0); short != none {
			return 0, short
		}
	}
	return s.space.half, noDisk
}

// spend takes n bytes of what the file system has to spare. s.mu is held.
func (v *space) spend(s *Store, n int64) shortage {
	if v.unseen < n {
		if short := v.look(s, n); short != none {
			return short
		}
	}
	v.unseen -= n
	return none
}

// look asks the file system whether it has n bytes to spare.
func (v *space) look(s *Store, n int64) shortage {
	if v.refused > 0 {
		v.refused--
		return v.why
	}
	free, total, err := s.free(s.limits.Directory)
	spare := free - total/leftAlone
	switch {
	case err != nil:
		v.refused, v.why = lookAgain, failure
		return failure
	case spare <= 0 || spare < n:
		v.refused, v.why = lookAgain, noDisk
		return noDisk
	}
	if v.half == 0 {
		v.half = max(1, (s.used[disk]+free)/2)
	}
	v.unseen = min(spare, lookEvery)
	return none
}
