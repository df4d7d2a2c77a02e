//go:build !unix

package mmdb

import "os"

// memory is where a file lies.
type memory struct{ data []byte }

func reserve(size int) (memory, error) { return memory{make([]byte, size)}, nil }

func (memory) free() {}

func (memory) freeWith(*content) {}

func inodeOf(os.FileInfo) uint64 { return 0 }
