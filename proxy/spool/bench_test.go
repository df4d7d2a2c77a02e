package spool

import (
	"io"
	"testing"
)

// TestBlocksAreUsedAgain: blocks of memory are used again.
func TestBlocksAreUsedAgain(t *testing.T) {
	s := NewStore(roomy(t))
	body, got := text(256<<10), make([]byte, 256<<10)
	allocated := testing.AllocsPerRun(100, func() {
		p := s.Open(anybody, 1<<20, 1<<30)
		p.TryWrite(body)
		if _, err := io.ReadFull(p, got); err != nil {
			t.Fatal(err)
		}
		p.Close()
	})
	if allocated > 16 { // with the race detector, the pool drops a quarter of the blocks
		t.Errorf("%v allocations for 16 blocks", allocated)
	}
}
