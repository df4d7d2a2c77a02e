package cpuaccount

import "sync"

const (
	ways  = 8       // entries of a set; a new one replaces the oldest
	sets  = 1 << 13 // 65,536 pairs in total, 2 MB
	locks = 64
)

// perClient stores the costs of clients' requests by client and feature. It is a set-associative cache of
// constant size.
type perClient struct {
	locks [locks]struct {
		sync.Mutex // guards the sets whose index modulo locks is this lock's
		_          [56]byte
	}
	sets [sets][ways]private
}

// at locks and returns the set of a client and feature.
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

// atLeast records the cost of a running request so far, and how long the request was idle. It reports whether the
// client has answers, and whether the cost is far higher than theirs.
func (p *perClient) atLeast(hash uint64, at int64, x, idle float64) (answered, overruns bool) {
	set, mu := p.at(hash)
	defer mu.Unlock()
	e := place(set, hash)
	if overruns = e.atLeast(x, idle); overruns || e.n < least {
		e.at = max(e.at, at)
	}
	return e.n > 0, overruns
}

// place returns the entry of a client and feature. If there is none, it replaces the oldest entry.
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
