package classify

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

const familySlots = 512

// families remembers the families of User-Agents that were seen lately. People
// share few strings, and reading one takes as long as all the rest of Classify.
// It is a cache of a pure function: it changes how fast an answer is, never
// which. Who sends a new string with each request only finds no help in it.
type families struct {
	seed  maphash.Seed
	slots [familySlots]atomic.Pointer[seenAgent]
}

type seenAgent struct{ agent, family string }

func newFamilies() *families { return &families{seed: maphash.MakeSeed()} }

// append appends the family of a User-Agent.
func (f *families) append(dst []byte, agent string) []byte {
	agent = agent[:min(len(agent), maxAgentBytes)]
	slot := &f.slots[maphash.String(f.seed, agent)%familySlots]
	if known := slot.Load(); known != nil && known.agent == agent {
		return append(dst, known.family...)
	}
	start := len(dst)
	dst = appendFamily(dst, agent)
	// A clone, as the string is a part of the request's whole header.
	slot.Store(&seenAgent{agent: strings.Clone(agent), family: string(dst[start:])})
	return dst
}
