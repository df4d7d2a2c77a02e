//go:build !linux

package demo

import (
	"crypto/sha256"
	"time"
)

// burn uses about so much CPU time, if it is alone.
func burn(cost time.Duration) (sum [sha256.Size]byte) {
	for end := time.Now().Add(cost); time.Now().Before(end); {
		for range 100 {
			sum = sha256.Sum256(sum[:])
		}
	}
	return sum
}
