// Package spool keeps bytes for a reader that is slower than the writer: first in memory, then in a temporary
// file without a name. There is a limit for all spools together, and one for the spools of each address.
//
// If there is no room, no byte is lost and no transfer fails: the writer waits while the reader takes bytes
// directly from it. A full file system, a missing directory and a lack of file descriptors also count as having
// no room. Stats counts these cases; no method returns them as errors.
//
// The package starts no goroutine and reads no clock.
package spool

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"tempomat/proxy/connlimit"
)

// Limits bound what the spools of a Store keep. All files together take at most half of the space that would
// be free without them, and never the last tenth of the file system.
type Limits struct {
	// Directory has the temporary files. It should be on a disk, because files on a tmpfs are in memory.
	Directory string
	// Memory bounds the bytes in memory of all spools together. It is used in blocks of 16 KiB.
	Memory int64
	// Files bounds the number of open files; 0: no bound.
	Files int
	// Address is the part of Memory, and of the disk's limit, that the spools of one address
	// may use, above 0 to 1. An IPv6 address stands for its /64.
	Address float64
}

// Stats are the use of a Store, and how often spools have found no room since the Store was made. A spool that
// finds no room is counted once, and again only if it has found room in between.
type Stats struct {
	Memory int64 `json:"memory"` // bytes of memory in use, counted in whole blocks
	Disk   int64 `json:"disk"`   // number of bytes in files
	Files  int64 `json:"files"`  // number of open files
	Spools int64 `json:"spools"` // number of open spools

	NoMemory  uint64 `json:"noMemory"`  // Limits.Memory was in use, so the bytes went to a file
	NoDisk    uint64 `json:"noDisk"`    // the disk's limit was reached, or the file system was full, so the writer waited
	NoAddress uint64 `json:"noAddress"` // one address had used its part of the memory or of the disk
	Errors    uint64 `json:"errors"`    // a file could not be made or written
}

// Store is the budget of many spools. All methods may be called concurrently.
type Store struct {
	blocks sync.Pool // holds *block
	open   func(directory string) (file, error)
	free   func(directory string) (free, total int64, err error)

	spools, files atomic.Int64
	short         [failure + 1]atomic.Uint64 // how often there was no room, by reason

	mu       sync.Mutex // guards the fields below; locked after that of a Spool
	limits   Limits
	used     [resources]int64
	accounts map[netip.Addr]*account // accounts of the addresses with open spools
}

// resource is memory or disk space.
type resource int

const (
	memory resource = iota
	disk
	resources
)

// account is how much the spools of one address use.
type account struct {
	address netip.Addr
	used    [resources]int64
	spools  int // number of the address's open spools
}

// shortage is the reason why there is no room.
type shortage int

const (
	none shortage = iota
	noMemory
	noDisk
	noAddress
	failure
)

// NewStore makes a Store. It opens no files and doesn't access the file system.
func NewStore(l Limits) *Store {
	s := &Store{open: openFile, free: freeSpace, limits: l, accounts: make(map[netip.Addr]*account)}
	s.blocks.New = func() any { return new(block) }
	return s
}

// SetLimits changes the limits. Bytes that are already kept stay, even if they exceed the new limits.
func (s *Store) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = l
}

// Stats returns the current state.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	used := s.used
	s.mu.Unlock()
	return Stats{
		Memory: used[memory], Disk: used[disk], Files: s.files.Load(), Spools: s.spools.Load(),
		NoMemory: s.short[noMemory].Load(), NoDisk: s.short[noDisk].Load(), NoAddress: s.short[noAddress].Load(), Errors: s.short[failure].Load(),
	}
}

// Open makes an empty spool that counts for an address. With the zero Addr, only the limits for all spools
// apply. memory limits the bytes in memory, rounded down to blocks of 16 KiB but at least one. most limits the
// unread bytes in total; if it is 0, each Write waits for the reader. The caller must Close the spool.
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

// account returns the account of an address, for one more spool; nil for the zero Addr.
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

// leave records that a spool no longer uses an account, which may be nil.
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

// reserve takes n bytes of a resource, all or none. It asks the file system without holding the lock, because
// a disk that hangs must not stop spools that only need memory.
func (s *Store) reserve(a *account, of resource, n int64) shortage {
	var free, total int64
	if of == disk {
		s.mu.Lock()
		directory := s.limits.Directory
		s.mu.Unlock()
		var err error
		switch free, total, err = s.free(directory); {
		case err != nil:
			return failure
		case free-total/leftAlone < n:
			return noDisk
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit, short := s.limits.Memory, noMemory
	if of == disk {
		limit, short = (s.used[disk]+free)/2, noDisk
	}
	switch {
	case s.used[of]+n > limit:
		return short
	case a != nil && float64(a.used[of]+n) > s.limits.Address*float64(limit):
		return noAddress
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

// leftAlone is the part of the file system, one in leftAlone, that spools never use, because other programs
// need room to work, and to log that there is little room.
const leftAlone = 10
