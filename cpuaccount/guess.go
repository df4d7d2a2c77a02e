package cpuaccount

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// least is how many answers a shape or URL needs before its mean is believed.
	least = 3
	// first is the guess before anything was measured: about a page.
	first = 50 * time.Millisecond
	// floor is the least guess. Even a file costs something, and a queue whose
	// requests cost nothing would leave all at once.
	floor = 100 * time.Microsecond
	// lean is how many answers of a client weigh as much as all of those of others.
	lean = 3
	// halfLife is how fast a client's own guess fades to that of others.
	halfLife = 10 * time.Second
	// longestURL is the most bytes of a URL that is looked at.
	longestURL = 512
)

// Kind is what the cost of a request is guessed by.
type Kind struct {
	Shape  string // of its path
	URL    string // its target as it came
	Client string // who asks
}

// Guess says beforehand what a request will likely cost: the mean of what its
// like cost before, and the mean deviation on top, as TCP estimates its
// retransmission timeout (RFC 6298). That is a little pessimistic on purpose: a
// charge that was too high is given back, one that was too low let others in
// meanwhile.
//
// What is the like of a request? Its shape, its very URL, or its shape with one
// of its parameters' values: a site whose every page is an index.php tells its
// pages apart by ?route=search. Of those that were answered before, the one
// whose costs vary least is believed.
//
// A client's own requests of the like are told from those of others. A cost of
// its own above theirs is taken with doubt: few answers lean on those of others,
// and without answers it fades to theirs. A client that was once taken for dear,
// and gets no answers because of that, would never be corrected else.
//
// It remembers a bounded number of each, as hashes; none of its locks is shared
// by all. Its methods may be called concurrently; the times that they are told
// may be a little out of order.
type Guess struct {
	seed  maphash.Seed
	kinds sketch // that were answered
	asked sketch // that were asked for and not known: who gets no answers pushes no answered ones out
	pairs pairs
}

// NewGuess makes a Guess that knows nothing.
func NewGuess() *Guess {
	g := &Guess{seed: maphash.MakeSeed()}
	g.kinds.init()
	g.asked.init()
	return g
}

// Ask counts a request as asked for. What is asked for again and again, and was
// never answered, is worth to be tried.
func (g *Guess) Ask(k Kind) {
	var buffer [mostTraits]uint64
	for _, trait := range g.traits(k, &buffer) {
		if e, _ := g.kinds.find(trait); e.n < least {
			g.asked.ask(trait)
		}
	}
}

// Of returns the likely cost of a request, and whether that rests on answers to
// the like of it. It does not if something about the request is asked for often
// and was hardly ever answered: that may be what makes it cheap, or dear, and not
// even the client's own answers tell. What its requests that still run have cost is
// the least that the next one will likely cost, and no answer. Idle is how long it
// will likely hold a worker without computing.
func (g *Guess) Of(now time.Time, k Kind) (cost, idle time.Duration, sure bool) {
	var buffer [mostTraits]uint64
	like, others, sure, untried := g.like(g.traits(k, &buffer))
	x, waits := others.cost(), others.idle
	switch own, ok := g.pairs.find(g.pair(k.Client, like)); {
	case ok && (sure || own.n == 0): // what was never answered is only the least, and makes nothing sure
		x = own.doubted(now.UnixMilli(), x)
	case ok: // there is nothing to lean on
		x, waits, sure = own.cost(), own.idle, true
	}
	if sure = sure && !untried; !sure {
		overran, idle := g.overran(now, g.traits(k, &buffer))
		x, waits = max(x, overran), max(waits, idle)
	}
	return max(floor, seconds(x)), seconds(float64(waits)), sure
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// Learn takes in what a request cost, and how long it held a worker without
// computing.
func (g *Guess) Learn(now time.Time, k Kind, cost, idle time.Duration) {
	var buffer [mostTraits]uint64
	at, x, waits, traits := now.UnixMilli(), cost.Seconds(), idle.Seconds(), g.traits(k, &buffer)
	like, _, _, _ := g.like(traits)
	for _, trait := range traits {
		g.kinds.learn(trait, x, waits)
	}
	g.pairs.learn(g.pair(k.Client, like), at, x, waits)
	if shape := traits[0]; like != shape {
		g.pairs.learn(g.pair(k.Client, shape), at, x, waits)
	}
}

// AtLeast takes in what a request that still runs has cost so far, so that the
// next ones of a client that is hardly known are not taken for as light as this
// one was. As long as nothing of the like was answered those of others are not
// taken for light either, if it was dear, or held a worker for long without
// computing.
func (g *Guess) AtLeast(now time.Time, k Kind, soFar, idle time.Duration) {
	var buffer [mostTraits]uint64
	at, traits := now.UnixMilli(), g.traits(k, &buffer)
	like, _, _, _ := g.like(traits)
	g.pairs.atLeast(g.pair(k.Client, like), at, soFar.Seconds(), 0)
	for _, trait := range traits {
		if e, _ := g.kinds.find(trait); e.n < least {
			g.pairs.atLeast(g.pair(anybody, trait), at, max(soFar, idle).Seconds(), idle.Seconds())
		}
	}
}

// anybody stands for all clients, where a request that runs tells of a kind that
// was never answered.
const anybody = ""

// overran is what requests of the like that run, or ran lately, have cost at
// least, in seconds, and how long they were idle, where too few were answered to
// know. Of what is asked for often about the request the least counts, as that may
// be what makes it light.
func (g *Guess) overran(now time.Time, traits []uint64) (x float64, idle float32) {
	often := false
	for _, trait := range traits {
		if e, _ := g.kinds.find(trait); e.n >= least {
			continue
		}
		cost, waits := 0.0, float32(0)
		if p, ok := g.pairs.find(g.pair(anybody, trait)); ok && p.n == 0 {
			trust := p.fresh(now.UnixMilli())
			cost, waits = float64(p.mean)*trust, p.idle*float32(trust)
		}
		switch asked := g.asked.times(trait) >= least; {
		case asked && (!often || cost < x):
			x, idle, often = cost, waits, true
		case !often && cost > x:
			x, idle = cost, waits
		}
	}
	return x, idle
}

// like returns which of a request's traits makes the like of it, and what all
// clients' answers to that say. If none is known it is the shape, and what is
// said is of all requests. Untried says that some trait was asked for more often
// than it was answered, and hardly known yet.
func (g *Guess) like(traits []uint64) (like uint64, e estimate, sure, untried bool) {
	shape, any := g.kinds.find(traits[0])
	like, e = traits[0], any
	best := math.Inf(1)
	if shape.n >= least {
		e, sure, best = shape, true, shape.doubt()
	}
	for _, trait := range traits[1:] {
		switch t, _ := g.kinds.find(trait); {
		case t.n < least:
			untried = untried || g.asked.times(trait) >= least+t.n
		case t.doubt() <= best:
			like, e, sure, best = trait, t, true, t.doubt()
		}
	}
	return like, e, sure, untried
}

// mostTraits is how many ways there are to find the like of a request: by its
// shape, by its URL, and by some of its parameters.
const mostTraits = 6

// traits appends the hashes of what a request may be told by, its shape first.
func (g *Guess) traits(k Kind, buffer *[mostTraits]uint64) []uint64 {
	shape := maphash.String(g.seed, k.Shape) &^ 1 // never equal to another trait
	traits := append(buffer[:0], shape)
	path, query, _ := strings.Cut(k.URL, "?")
	if path == "" || len(k.URL) > longestURL {
		return traits
	}
	traits = append(traits, maphash.String(g.seed, k.URL)|1)
	for query != "" && len(traits) < mostTraits {
		var parameter string
		if parameter, query, _ = strings.Cut(query, "&"); parameter != "" {
			traits = append(traits, mix(shape, maphash.String(g.seed, parameter))|1)
		}
	}
	return traits
}

// pair is the hash of a client and a kind.
func (g *Guess) pair(client string, kind uint64) uint64 {
	return mix(maphash.String(g.seed, client), kind)
}

// mix makes one hash of two.
func mix(a, b uint64) uint64 {
	h := a ^ b*0x9e3779b97f4a7c15
	return (h ^ h>>32) * 0xd6e8feb86659fd93
}

// shards is how many locks each part of a Guess has.
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
	kinds []counted
	least uint32   // no count is less
	next  int      // before it no count is least
	any   estimate // of all that came here
	_     [12]byte // a cache line of its own
}

type counted struct {
	hash  uint64
	asked uint32 // since it came; what it took over does not count
	estimate
}

// kindsPerShard makes it 8192 in all.
const kindsPerShard = 512

func (s *sketch) init() {
	for i := range s.shards {
		s.shards[i].index = make(map[uint64]int)
	}
}

func (s *sketch) shard(hash uint64) *sketchShard { return &s.shards[hash>>1%shards] }

// find returns what is known of a kind, and of any.
func (s *sketch) find(hash uint64) (e, any estimate) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if i, ok := sh.index[hash]; ok {
		e = sh.kinds[i].estimate
	}
	return e, sh.any
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

// learn takes in what an answer cost, and how long it was idle.
func (s *sketch) learn(hash uint64, x, idle float64) {
	sh := s.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.any.learn(x, idle)
	sh.kinds[sh.countLocked(hash)].learn(x, idle)
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
		s.kinds, s.count = append(s.kinds, counted{}), append(s.count, 0)
	} else {
		i = s.leastLocked()
		delete(s.index, s.kinds[i].hash)
	}
	s.kinds[i] = counted{hash: hash} // its count it inherits, its costs not
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
