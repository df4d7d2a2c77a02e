//go:build unix

package mmdb

import (
	"os"
	"runtime"
	"syscall"
)

// memory is where a file lies: not on the heap, which the runtime lets grow to a multiple of
// what is in use.
type memory struct{ data []byte }

func reserve(size int) (m memory, err error) {
	m.data, err = syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	return m, os.NewSyscallError("mmap", err)
}

func (m memory) free() { _ = syscall.Munmap(m.data) } // nothing else has it

// freeWith gives it back when nobody uses the content any more.
func (m memory) freeWith(c *content) {
	runtime.AddCleanup(c, func(m memory) { m.free() }, m)
}

func inodeOf(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
