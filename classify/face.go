package classify

import (
	"encoding/binary"
	"math/bits"
)

const faces = 8 // that people behind one address are told apart by

// face tells people behind one address apart who have no session, by their
// User-Agents: 0 to 7. A keyed hash, as nobody is to know who shares a face with
// whom. There are few of them, and they share what their address has: who makes up
// User-Agents gets no more by it.
func (s *Standing) face(agent []string) uint8 {
	if len(agent) == 0 {
		return 0
	}
	text := agent[0][:min(len(agent[0]), maxAgentBytes)]
	h := binary.LittleEndian.Uint64(s.secret[:]) ^ uint64(len(text))
	key := binary.LittleEndian.Uint64(s.secret[8:]) | 1
	for ; len(text) >= 8; text = text[8:] {
		h = fold(h^(uint64(text[0])|uint64(text[1])<<8|uint64(text[2])<<16|uint64(text[3])<<24|
			uint64(text[4])<<32|uint64(text[5])<<40|uint64(text[6])<<48|uint64(text[7])<<56), key)
	}
	for i := range len(text) {
		h = fold(h^uint64(text[i]), key)
	}
	return uint8(fold(h, key) % faces)
}

// fold mixes all bits of a number with all others.
func fold(h, key uint64) uint64 {
	high, low := bits.Mul64(h^0x9e3779b97f4a7c15, key^0xbf58476d1ce4e5b9)
	return high ^ low
}
