package spool

import (
	"errors"
	"io"
	"testing"
)

// A body of 256 KB goes in and comes out again.
func benchmarkCycle(b *testing.B, memory int64) {
	s := NewStore(roomy(b))
	body, got := text(256<<10), make([]byte, 32<<10)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p := s.Open(anybody, memory, 1<<30)
		for in := body; len(in) > 0; in = in[32<<10:] {
			if _, err := p.Write(in[:32<<10]); err != nil {
				b.Fatal(err)
			}
		}
		p.CloseWrite(nil)
		for {
			if _, err := p.Read(got); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
		p.Close()
	}
}

func BenchmarkFile(b *testing.B) { benchmarkCycle(b, 0) }

func BenchmarkUnused(b *testing.B) {
	s := NewStore(roomy(b))
	b.ReportAllocs()
	for b.Loop() {
		s.Open(anybody, 64<<10, 1<<30).Close()
	}
}

// Blocks are used again.
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
	if allocated > 16 { // the race detector's pool forgets a quarter of the blocks
		t.Errorf("%v allocations for 16 blocks", allocated)
	}
}
