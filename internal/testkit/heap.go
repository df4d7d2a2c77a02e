package testkit

import "runtime"

// Heap returns how many bytes of the heap are in use after a garbage collection.
func Heap() int64 {
	var m runtime.MemStats
	for range 2 { // objects in a sync.Pool survive one collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // far below 1<<63
}
