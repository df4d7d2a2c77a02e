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

// seenAgent is what is read out of a User-Agent.
type seenAgent struct {
	agent, family string
	robot         bool // it names no browser
	declared      bool // it says that it is a robot
}

func newFamilies() *families { return &families{seed: maphash.MakeSeed()} }

// read returns what a User-Agent says.
func (f *families) read(agent string) *seenAgent {
	agent = agent[:min(len(agent), maxAgentBytes)]
	slot := &f.slots[maphash.String(f.seed, agent)%familySlots]
	if known := slot.Load(); known != nil && known.agent == agent {
		return known
	}
	var buffer [maxID]byte
	// A clone, as the string is a part of the request's whole header.
	seen := &seenAgent{
		agent: strings.Clone(agent), family: string(appendFamily(buffer[:0], agent)),
		robot: !SaysBrowser(agent), declared: saysRobot(agent),
	}
	slot.Store(seen)
	return seen
}
