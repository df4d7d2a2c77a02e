package main

import (
	"math"
	"testing"

	"tempomat/config"
)

// TestFitting: connections leave three quarters of the memory to the site.
func TestFitting(t *testing.T) {
	for memory, want := range map[uint64]int{
		0: 1, 100 << 10: 1, 512 << 20: 4096, 1 << 30: 8192, 24 << 30: 196_608, math.MaxUint64: math.MaxInt32,
	} {
		if got := fitting(memory, memoryOfEach(config.Default())); got != want {
			t.Errorf("of %d bytes: %d connections, want %d", memory, got, want)
		}
	}
}

// TestForHeads: large headers leave the rest to connections and the site, and the bound is a
// number that any machine can count to.
func TestForHeads(t *testing.T) {
	for memory, want := range map[uint64]int{0: 0, 512 << 20: 64 << 20, 1 << 30: 128 << 20, math.MaxUint64: math.MaxInt32} {
		if got := forHeads(memory); got != want {
			t.Errorf("of %d bytes: %d, want %d", memory, got, want)
		}
	}
}
