package cpuaccount

import (
	"hash/maphash"
	"math"
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
	// halfLife is how fast a client's own guess fades to that of others, and a doubt
	// that an overrun left.
	halfLife = 10 * time.Second
)

// Estimator predicts what a request will likely cost: the mean of similar earlier requests plus
// their mean deviation, as TCP estimates its retransmission timeout (RFC 6298). That is
// deliberately a little pessimistic: a charge that was too high is returned, but one that was
// too low has let others in by then.
//
// Which requests are similar? Those with the same shape, the same URL, or the same shape and
// one equal parameter value: a site whose every page is an index.php distinguishes its pages by
// ?route=search. Of the features that were answered before, the one whose costs vary least is
// used, once clients of several addresses were answered: a client that trains a parameter with
// cheap answers deceives no one but itself. Costs of known people's requests take precedence
// over those of all.
//
// A client's own requests are kept apart from those of others. If its own cost is above theirs,
// it counts with caution: with few answers it leans on those of others, and without answers it
// fades to theirs. Otherwise a client that was once considered expensive, and gets no answers
// because of that, would never be corrected.
//
// A request that costs far more than its guess puts similar requests in doubt while it still
// runs, until answers show that it was an exception. Without any answers it is the best
// estimate.
//
// It remembers a bounded number of each, as hashes; none of its locks is shared by all. Its
// methods may be called concurrently; the times that they get may be a little out of order.
type Estimator struct {
	seed      maphash.Seed
	given     func(text string) uint64 // the hash, instead of that by the seed; nil: none was
	kinds     sketch                   // that were answered
	asked     sketch                   // requested but unknown features: unanswered ones push no answered ones out
	perClient perClient
}

// NewEstimator makes an Estimator that knows nothing.
func NewEstimator() *Estimator { return NewHashedEstimator(nil) }

// NewHashedEstimator makes an Estimator that remembers by the given hash, so two with the same
// hash and the same input guess the same, in every process: that makes simulations repeatable. A
// client that knows the hash can make different requests collide; an Estimator that judges clients
// has a secret one, made by NewEstimator.
func NewHashedEstimator(hash func(text string) uint64) *Estimator {
	g := &Estimator{seed: maphash.MakeSeed(), given: hash}
	g.kinds.init()
	g.asked.init()
	return g
}

// hash is that of a text. A call through a pointer would take longer than the usual hash.
func (g *Estimator) hash(text string) uint64 {
	if g.given != nil {
		return g.given(text)
	}
	return maphash.String(g.seed, text)
}

// question is a request that is guessed about, and what is known of it.
type question struct {
	asker
	client uint64 // the hash of it
	buffer [maxFeatures]uint64
	count  int               // how many features of the request there are
	views  [maxFeatures]view // of these, in the same order
	bestMatch
}

// features are the hashes of what the request may be told by, its shape first.
func (q *question) features() []uint64 { return q.buffer[:q.count] }

// begin finds out who asks, and for what.
func (g *Estimator) begin(now time.Time, k *Kind, q *question) {
	q.client = g.hash(k.Client)
	from := q.client
	if k.Address != "" {
		from = g.hash(k.Address)
	}
	q.asker = asker{from: witness(from), known: k.Known, at: now.UnixMilli()}
	q.count = len(g.features(k, &q.buffer))
}

// look finds what is known of a request.
func (g *Estimator) look(now time.Time, k *Kind, q *question) {
	g.begin(now, k, q)
	for i, feature := range q.features() {
		g.kinds.find(feature, &q.asker, &q.views[i])
	}
	g.match(q)
}

// Ask counts a request as asked for. A feature that is requested often and was never answered
// is worth a trial.
func (g *Estimator) Ask(k Kind) {
	var buffer [maxFeatures]uint64
	for _, feature := range g.features(&k, &buffer) {
		if g.kinds.answers(feature) < least {
			g.asked.ask(feature)
		}
	}
}

// Unask takes back that a request was asked for: it was sent away without an answer,
// and not because of what it costs.
func (g *Estimator) Unask(k Kind) {
	var buffer [maxFeatures]uint64
	for _, feature := range g.features(&k, &buffer) {
		g.asked.unask(feature)
	}
}

// Of returns the likely cost of a request, and whether that is based on answers to similar
// ones. It isn't if a feature of the request is requested often and was rarely answered: that
// feature may make it cheap or expensive, and even the client's own answers don't show which.
// The cost so far of its client's running requests is the least that the next one will likely
// cost; it doesn't count as an answer. The cost isn't based on answers either while a similar
// request that still runs, or ran just now, has cost far more than its guess. Idle is how long
// it will likely hold a worker without computing.
func (g *Estimator) Of(now time.Time, k Kind) (cost, idle time.Duration, sure bool) {
	var q question
	g.look(now, &k, &q)
	x, waits, sure, vouched := q.cost(), q.idle, q.believed, false
	expected := x
	if own, ok := g.perClient.find(mix(q.client, q.feature)); ok {
		if sure || own.n == 0 { // what was never answered is only the least, and makes nothing sure
			x = own.doubted(q.at, x)
		} else { // there is nothing to lean on
			x, waits, sure = own.cost(), own.idle, true
		}
		sure = sure && !(own.overran && beyond(x, q.cost()))
		vouched = q.known && own.n >= least && !own.overran
		if own.n > 0 {
			expected = x
		}
	}
	if over := float64(q.over); beyond(over, expected) && !vouched {
		x, sure = max(x, over), false
	}
	if sure = sure && !q.uncertain && !g.untried(&q); !sure {
		running, idle := g.unanswered(&q)
		x, waits = max(x, running), max(waits, idle)
	}
	return max(floor, seconds(x)), seconds(float64(waits)), sure
}

// Running is what requests of the like that run, or ran recently, have cost or have
// held a worker for at least; and what those cost that were answered, if too few
// were, or not those of all, to be sure of it. Zero: nothing is known of the like,
// and a guess is that of any request.
func (g *Estimator) Running(now time.Time, k Kind) time.Duration {
	var q question
	g.look(now, &k, &q)
	x, _ := g.unanswered(&q)
	if q.answered {
		x = max(x, q.cost())
	}
	return seconds(max(x, q.dearest, float64(q.over)))
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// Learn takes in what a request cost, and how long it held a worker without
// computing.
func (g *Estimator) Learn(now time.Time, k Kind, cost, idle time.Duration) {
	var q question
	g.begin(now, &k, &q)
	x, waits := cost.Seconds(), idle.Seconds()
	for i, feature := range q.features() {
		g.kinds.learn(feature, &q.asker, x, waits, &q.views[i])
	}
	g.match(&q)
	g.perClient.learn(mix(q.client, q.feature), q.at, x, waits)
	if shape := q.buffer[0]; q.feature != shape {
		g.perClient.learn(mix(q.client, shape), q.at, x, waits)
	}
}

// AtLeast takes in what a running request has cost so far, and how long it held a worker
// without computing. The next requests of a little-known client then don't count as being as
// light as this one was thought to be; and if it is far beyond its guess, the guess is in doubt
// for all clients with similar requests. Its features without enough answers then count as
// being as expensive as this, for every client.
func (g *Estimator) AtLeast(now time.Time, k Kind, soFar, idle time.Duration) {
	var q question
	g.look(now, &k, &q)
	x := soFar.Seconds()
	answered, overruns := g.perClient.atLeast(mix(q.client, q.feature), q.at, x, 0)
	if !answered {
		overruns = beyond(x, q.cost())
	}
	for i, feature := range q.features() {
		switch {
		case !q.views[i].believed:
			g.perClient.atLeast(mix(anybody, feature), q.at, max(soFar, idle).Seconds(), idle.Seconds())
		case overruns:
			g.kinds.change(feature, func(f *featureRecord) { f.over.told(&q.asker, x) })
		}
	}
}

// anybody stands for all clients, when a running request gives the first cost of a kind without
// enough answers.
const anybody = 0

// unanswered is what similar requests that run, or ran recently, have cost at least, in
// seconds, and how long they were idle, by features without enough answers. Among features that
// are requested often, the lowest cost counts, because that feature may be what makes the
// request light.
func (g *Estimator) unanswered(q *question) (x float64, idle float32) {
	often := false
	for i, feature := range q.features() {
		if q.views[i].believed {
			continue
		}
		cost, waits := 0.0, float32(0)
		if p, ok := g.perClient.find(mix(anybody, feature)); ok {
			left := faded(p.at, q.at)
			cost, waits = float64(p.mean)*left, p.idle*float32(left)
		}
		switch asked := g.asked.times(feature) >= least; {
		case asked && (!often || cost < x):
			x, idle, often = cost, waits, true
		case !often && cost > x:
			x, idle = cost, waits
		}
	}
	return x, idle
}

// bestMatch is the feature by which requests are similar, and what is known of it.
type bestMatch struct {
	view
	feature   uint64
	over      float32 // what one of the like has cost that was guessed far too low
	answered  bool    // enough of the like were, and not only other requests
	dearest   float64 // of what is known of it by too few
	uncertain bool    // something about the request was far more expensive for a few
}

// match finds the feature by which a request's cost is guessed, and what its answers
// show. If none has enough answers, it is the shape, and the figures are those of all requests.
func (g *Estimator) match(q *question) {
	q.bestMatch = bestMatch{view: q.views[0], feature: q.buffer[0]}
	best := float32(math.Inf(1))
	if q.answered = q.n >= least; q.believed {
		best = q.uncertainty
	} else if !q.answered {
		q.estimate = g.kinds.any(q.buffer[0])
	}
	var over float32
	for i := 1; i < q.count; i++ {
		switch t := &q.views[i]; {
		case t.n < least:
		case !t.believed: // nobody vouches for it
			q.dearest, over = max(q.dearest, t.cost()), max(over, t.over)
		case t.uncertainty <= best:
			q.view, q.feature, best, q.answered = *t, q.buffer[i], t.uncertainty, true
		}
	}
	q.over, q.uncertain = max(over, q.blamed()), beyond(q.dearest, q.cost())
}

// blamed is the cost of a similar request whose guess was far too low. Because it isn't known
// which of its features made it expensive, all of them are in doubt; any other trusted feature
// of a request clears it.
func (q *question) blamed() float32 {
	over := q.view.over
	for i := range q.features() {
		if v := &q.views[i]; v.believed {
			over = min(over, max(v.over, float32(v.cost())))
		}
	}
	return over
}

// untried reports that a feature of a request was requested more often than answered, and that
// little is known of it.
func (g *Estimator) untried(q *question) bool {
	for i := 1; i < q.count; i++ {
		if n := uint32(q.views[i].n); n < least && g.asked.times(q.buffer[i]) >= least+n {
			return true
		}
	}
	return false
}
