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
