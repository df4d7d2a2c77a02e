package sim

import (
	"hash/fnv"
	"math/rand/v2"
)

// Hash makes a hash of a seed, for a guess: it is the same in every process, so that a
// run can be repeated, which no hash with a secret key can be. Who collides with whom is
// another matter with each seed.
func Hash(seed uint64) func(text string) uint64 {
	return func(text string) uint64 {
		h := fnv.New64a()
		h.Write([]byte(text))
		return rand.NewPCG(h.Sum64(), seed).Uint64()
	}
}
