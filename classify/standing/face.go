package standing

import (
	"encoding/binary"
	"math/bits"
)

const (
	faces        = 8   // that people behind one address are told apart by
	longestAgent = 512 // bytes of a User-Agent that are looked at
)

// face tells people behind one address apart who have no session, by their
// User-Agents: 0 to 7. A keyed hash, as nobody is to know who shares a face with
// whom. There are few of them, and they share what their address has: who makes up
// User-Agents gets no more by it.
func (j *Judge) face(agent []string) uint8 {
	if len(agent) == 0 {
		return 0
	}
	text := agent[0][:min(len(agent[0]), longestAgent)]
	h := binary.LittleEndian.Uint64(j.secret[:]) ^ uint64(len(text))
	key := binary.LittleEndian.Uint64(j.secret[8:]) ^ 0x9e3779b97f4a7c15
	for ; len(text) > 16; text = text[16:] {
		h = fold(h^word64(text), key^word64(text[8:]))
	}
	var rest [16]byte
	copy(rest[:], text)
	h = fold(h^binary.LittleEndian.Uint64(rest[:]), key^binary.LittleEndian.Uint64(rest[8:]))
	return uint8(fold(h, key) % faces)
}

// fold mixes all bits of two numbers.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// word64 is the first eight bytes of a text, as a number.
func word64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
