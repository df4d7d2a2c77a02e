package cpuaccount

import (
	"math"
	"slices"
	"sync"
)

// shards is the number of locks of a sketch.
const shards = 16

// sketch keeps the most requested features, with the space-saving algorithm (Metwally, Agrawal and El Abbadi, ICDT
// 2005). If there is no room, a new feature replaces the one with the smallest count and inherits that count. With
// room for n features, every feature of more than one in n requests is kept, however many others clients
// invent.
type sketch struct {
	shards [shards]sketchShard
}

type sketchShard struct {
	mu    sync.Mutex // guards the fields below
	index map[uint64]int
	count []uint32 // by the index in kinds; separate, because leastLocked searches all counts
	kinds []featureRecord
	least uint32   // the smallest count
	next  int      // no count before this index is equal to least
	any   estimate // of all answers in this shard
	_     [12]byte // fills a cache line
}

// kindsPerShard is the number of features in a shard. A sketch has 8192 in total.
const kindsPerShard = 512

func (s *sketch) init() {
	for i := range s.shards {
		s.shards[i].index = make(map[uint64]int)
	}
}

func (s *sketch) shard(hash uint64) *sketchShard { return &s.shards[hash>>1%shards] }

// find fills in the view of a feature, if it is known.
func (s *sketch) find(hash uint64, by *asker, v *view) {
	sh := s.shard(hash)
	sh.mu.Lock()
	if i, ok := sh.index[hash]; ok {
		sh.kinds[i].show(v, by)
	}
	sh.mu.Unlock()
}

// any returns the estimate of all answers that fell into a feature's shard.
func (s *sketch) any(hash uint64) estimate {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.any
}

// change calls do with the record of a feature, if it is known.
func (s *sketch) change(hash uint64, do func(*featureRecord)) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i, ok := sh.index[hash]; ok {
		do(&sh.kinds[i])
	}
}

// times returns how often a feature was requested since it was added.
func (s *sketch) times(hash uint64) uint32 {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i, ok := sh.index[hash]; ok {
		return sh.kinds[i].asked
	}
	return 0
}

// ask counts a request with a feature.
func (s *sketch) ask(hash uint64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if k := &sh.kinds[sh.countLocked(hash)]; k.asked < math.MaxUint32 {
		k.asked++
	}
}

// unask takes back an ask.
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

// learn records the cost of an answered request and how long it was idle. It sets before to the earlier view.
func (s *sketch) learn(hash uint64, by *asker, x, idle float64, before *view) {
	sh := s.shard(hash)
	sh.mu.Lock()
	sh.any.learn(x, idle)
	f := &sh.kinds[sh.countLocked(hash)]
	f.show(before, by)
	f.learn(by, x, idle)
	sh.mu.Unlock()
}

// countLocked counts a feature and returns its index.
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

// placeLocked returns the index of a feature, and adds it if necessary.
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
	s.kinds[i] = featureRecord{hash: hash} // the new feature inherits the count, but no costs
	s.index[hash] = i
	return i
}

// leastLocked returns the index of a feature with the smallest count. Counts only grow, so the search
// continues where the last one ended. Under a flood, all invented features have about the same count, and the
// search takes only a step or two.
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
