package cpuaccount

import (
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	// alpha is the weight of a new answer once there are many; until then all
	// answers count alike.
	alpha = 0.1
	// least is how many answers a shape needs before its own mean is believed.
	least = 3
	// first is the guess before anything was measured: about a page.
	first = 50 * time.Millisecond
	// floor is the least guess. Even a file costs something, and a queue whose
	// requests cost nothing would leave all at once.
	floor = 100 * time.Microsecond

	guessShards    = 16
	shapesPerShard = 256
)

// Guess says beforehand what a request will likely cost: the mean of what its
// path shape cost before, and the mean deviation on top, as TCP estimates its
// retransmission timeout (RFC 6298). That is a little pessimistic on purpose: a
// charge that was too high is given back, one that was too low let others in
// meanwhile. It remembers a bounded number of shapes. Its methods may be called
// concurrently.
type Guess struct {
	seed   maphash.Seed
	shards [guessShards]guessShard
}

type guessShard struct {
	mu     sync.Mutex // guards the following
	shapes map[string]*estimate
	any    estimate // of all shapes of the shard
}

// estimate is a moving mean and mean deviation, in seconds.
type estimate struct {
	mean, dev float64
	n         int
}

// NewGuess makes a Guess that knows nothing.
func NewGuess() *Guess {
	g := &Guess{seed: maphash.MakeSeed()}
	for i := range g.shards {
		g.shards[i].shapes = make(map[string]*estimate)
	}
	return g
}

// Of returns the likely cost of a request of the shape.
func (g *Guess) Of(shape string) time.Duration {
	s := g.shard(shape)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.shapes[shape]; e != nil && e.n >= least {
		return e.cost()
	}
	return s.any.cost()
}

// Learn takes in what a request of the shape cost. Shapes beyond what there is
// room for push out another one, whichever comes.
func (g *Guess) Learn(shape string, cost time.Duration) {
	s := g.shard(shape)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.any.learn(cost.Seconds())
	e := s.shapes[shape]
	if e == nil {
		if len(s.shapes) >= shapesPerShard {
			s.forgetOneLocked()
		}
		e = &estimate{}
		s.shapes[strings.Clone(shape)] = e
	}
	e.learn(cost.Seconds())
}

func (s *guessShard) forgetOneLocked() {
	for shape := range s.shapes {
		delete(s.shapes, shape)
		return
	}
}

func (g *Guess) shard(shape string) *guessShard {
	return &g.shards[maphash.String(g.seed, shape)%guessShards]
}

func (e *estimate) learn(x float64) {
	e.n++
	a := max(alpha, 1/float64(e.n))
	if e.n > 1 {
		e.dev += a * (math.Abs(x-e.mean) - e.dev)
	}
	e.mean += a * (x - e.mean)
}

func (e *estimate) cost() time.Duration {
	if e.n == 0 {
		return first
	}
	return max(floor, time.Duration((e.mean+e.dev)*float64(time.Second)))
}
