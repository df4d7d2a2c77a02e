package known

const (
	bloomBits   = 1 << 22
	bloomHashes = 4
	bloomFull   = bloomBits / 3
)

// bloom is a Bloom filter. Whoever has it guards it.
type bloom struct {
	words [bloomBits / 64]uint64
	set   int // bits
}

func (b *bloom) has(h [2]uint64) bool {
	for i := range uint64(bloomHashes) {
		bit := (h[0] + i*h[1]) % bloomBits
		if b.words[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

func (b *bloom) add(h [2]uint64) {
	for i := range uint64(bloomHashes) {
		bit := (h[0] + i*h[1]) % bloomBits
		if mask := uint64(1) << (bit % 64); b.words[bit/64]&mask == 0 {
			b.words[bit/64] |= mask
			b.set++
		}
	}
}
