package cpuaccount

import "sync"

const (
	ways  = 8       // kinds that share a set; the stalest makes room
	sets  = 1 << 13 // 65536 pairs in all, 2 MB
	locks = 64
)

// perClient is what clients' requests cost, by client and kind: a set-associative cache, as
// large when empty as under a flood.
type perClient struct {
	locks [locks]struct {
		sync.Mutex // guards each locks-th set
		_          [56]byte
	}
	sets [sets][ways]private
}

// at returns a pair's set, locked by the mutex.
func (p *perClient) at(hash uint64) (*[ways]private, *sync.Mutex) {
	i := hash % sets
	mu := &p.locks[i%locks].Mutex
	mu.Lock()
	return &p.sets[i], mu
}

func (p *perClient) find(hash uint64) (private, bool) {
	set, mu := p.at(hash)
	defer mu.Unlock()
	for i := range set {
		if set[i].hash == hash {
			return set[i], true
		}
	}
	return private{}, false
}

func (p *perClient) learn(hash uint64, at int64, x, idle float64) {
	set, mu := p.at(hash)
	defer mu.Unlock()
	e := place(set, hash)
	e.learn(x, idle)
	e.at = max(e.at, at)
}

// atLeast takes in what a request that still runs has cost, and how long it was
// idle. It tells whether the client was ever answered, and if so whether that is
// far more than its answers.
func (p *perClient) atLeast(hash uint64, at int64, x, idle float64) (answered, overruns bool) {
	set, mu := p.at(hash)
	defer mu.Unlock()
	e := place(set, hash)
	if overruns = e.atLeast(x, idle); overruns || e.n < least {
		e.at = max(e.at, at)
	}
	return e.n > 0, overruns
}

// place returns a pair's entry, that of the stalest one if need be.
func place(set *[ways]private, hash uint64) *private {
	stalest := &set[0]
	for i := range set {
		e := &set[i]
		if e.hash == hash {
			return e
		}
		if e.at < stalest.at {
			stalest = e
		}
	}
	*stalest = private{hash: hash}
	return stalest
}
