package cpuaccount

import (
	"math"
	"slices"
	"sync"
)

// shards is how many locks each part of an Estimator has.
const shards = 16

// sketch is the kinds that are asked for most, by the space-saving algorithm
// (Metwally, Agrawal and El Abbadi, ICDT 2005): when there is no room, the one
// with the least count makes room for the new one, which takes its count over.
// Whatever makes up more than a part in as many as are kept is kept, whoever
// invents the rest.
type sketch struct {
	shards [shards]sketchShard
}

type sketchShard struct {
	mu    sync.Mutex // guards the following
	index map[uint64]int
	count []uint32 // in step with kinds, apart as all of it is searched at times
	kinds []featureRecord
	least uint32   // no count is less
	next  int      // before it no count is least
	any   estimate // of all that came here
	_     [12]byte // a cache line of its own
}

// kindsPerShard makes it 8192 in all.
const kindsPerShard = 512

func (s *sketch) init() {
	for i := range s.shards {
		s.shards[i].index = make(map[uint64]int)
	}
}

func (s *sketch) shard(hash uint64) *sketchShard { return &s.shards[hash>>1%shards] }

// find shows what is known of a kind.
func (s *sketch) find(hash uint64, by *asker, v *view) {
	sh := s.shard(hash)
	sh.mu.Lock()
	if i, ok := sh.index[hash]; ok {
		sh.kinds[i].show(v, by)
	}
	sh.mu.Unlock()
}

// answers is how many a kind got.
func (s *sketch) answers(hash uint64) (n uint16) {
	sh := s.shard(hash)
	sh.mu.Lock()
	if i, ok := sh.index[hash]; ok {
		n = sh.kinds[i].all.n
	}
	sh.mu.Unlock()
	return n
}

// any is what is known of all that came to a kind's shard.
func (s *sketch) any(hash uint64) estimate {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.any
}

// change has what is known of a kind changed, if it is known.
func (s *sketch) change(hash uint64, do func(*featureRecord)) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i, ok := sh.index[hash]; ok {
		do(&sh.kinds[i])
	}
}

// times is how often a kind was asked for since it came.
func (s *sketch) times(hash uint64) uint32 {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i, ok := sh.index[hash]; ok {
		return sh.kinds[i].asked
	}
	return 0
}

// ask counts a request.
func (s *sketch) ask(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := &sh.kinds[sh.countLocked(hash)]; k.asked < math.MaxUint32 {
		k.asked++
	}
}

// unask takes one back.
func (s *sketch) unask(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i, ok := sh.index[hash]; ok {
		if k := &sh.kinds[i]; k.asked > 0 {
			k.asked--
		}
	}
}

// learn takes in what an answer cost, and how long it was idle, and shows what
// was known before.
func (s *sketch) learn(hash uint64, by *asker, x, idle float64, before *view) {
	sh := s.shard(hash)
	sh.mu.Lock()
	sh.any.learn(x, idle)
	f := &sh.kinds[sh.countLocked(hash)]
	f.show(before, by)
	f.learn(by, x, idle)
	sh.mu.Unlock()
}

// countLocked counts a kind, and returns where it is.
func (s *sketchShard) countLocked(hash uint64) int {
	i := s.placeLocked(hash)
	if s.count[i]++; s.count[i] == math.MaxUint32 {
		for i := range s.count {
			s.count[i] /= 2
		}
		s.least, s.next = 0, 0
	}
	return i
}

// placeLocked returns where a kind is.
func (s *sketchShard) placeLocked(hash uint64) int {
	if i, ok := s.index[hash]; ok {
		return i
	}
	i := len(s.kinds)
	if i < kindsPerShard {
		s.kinds, s.count = append(s.kinds, featureRecord{}), append(s.count, 0)
	} else {
		i = s.leastLocked()
		delete(s.index, s.kinds[i].hash)
	}
	s.kinds[i] = featureRecord{hash: hash} // its count it inherits, its costs not
	s.index[hash] = i
	return i
}

// leastLocked returns one of those with the least count. As counts only grow, it
// goes on where it found the last one: under a flood, when all that are invented
// have about the same count, that is a step or two.
func (s *sketchShard) leastLocked() int {
	for ; s.next < len(s.count); s.next++ {
		if s.count[s.next] == s.least {
			return s.next
		}
	}
	s.least = slices.Min(s.count)
	s.next = slices.Index(s.count, s.least)
	return s.next
}
