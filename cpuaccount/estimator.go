package cpuaccount

import (
	"hash/maphash"
	"math"
	"time"
)

const (
	// least is the number of answers that a feature needs before its mean is used.
	least = 3
	// first is the guess before anything has been measured: a typical page's cost.
	first = 50 * time.Millisecond
	// floor is the smallest guess. Even a file costs something, and requests without any cost would all leave
	// the queue at once.
	floor = 100 * time.Microsecond
	// lean is the number of a client's own answers that weigh as much as all answers to others.
	lean = 3
	// halfLife is the half-life with which a client's own guess fades towards that of others, and with which the
	// doubt after an overrun fades.
	halfLife = 10 * time.Second
)

// Estimator predicts the cost of a request: the mean of similar earlier requests plus their mean deviation, like
// TCP's retransmission timeout (RFC 6298). The guess is slightly too high on purpose. If a charge was too high,
// the difference is refunded. If it was too low, it has already caused other requests to be started too
// early.
//
// Requests are similar if they have the same shape, the same URL, or the same shape and one equal parameter.
// Parameters matter on sites where every page is an index.php with a different ?route=search. Among the
// features with answers to clients of several addresses, the Estimator uses the one whose costs vary least. A
// client that makes a parameter look cheap therefore deceives only itself. The costs of known clients'
// requests take precedence over those of all requests.
//
// A client's own requests are also counted separately. If the client's own cost is higher than that of others,
// it is used with caution: with few answers, it is moved towards the cost of others, and without new answers, it
// fades. Otherwise, a client that was once considered expensive and therefore gets no answers would never be
// considered cheap again.
//
// A running request that costs far more than its guess casts doubt on similar requests until answers show that
// it was an exception. If there are no answers at all, the cost of the running request is the best estimate.
//
// The Estimator stores a limited number of hashes. It has no lock that all requests share, except those of new
// kinds. Its methods may be called concurrently, with times that are slightly out of order.
type Estimator struct {
	seed      maphash.Seed
	given     func(text string) uint64 // a hash function to use instead of the seed's; nil: none
	kinds     sketch                   // features with answers
	asked     sketch                   // features with too few answers; separate, because otherwise they would evict features with answers
	perClient perClient
}

// NewEstimator makes an Estimator that hasn't learned anything yet.
func NewEstimator() *Estimator { return NewHashedEstimator(nil) }

// NewHashedEstimator makes an Estimator with the given hash function. Two Estimators with the same hash
// function and the same input make the same guesses, which makes simulations repeatable. A client that knows
// the function can cause collisions, so use NewEstimator, whose hash is secret, for real clients.
func NewHashedEstimator(hash func(text string) uint64) *Estimator {
	g := &Estimator{seed: maphash.MakeSeed(), given: hash}
	g.kinds.init()
	g.asked.init()
	return g
}

// hash returns the hash of a text. The usual hash isn't called through a function value, because the call
// would take longer than the hash itself.
func (g *Estimator) hash(text string) uint64 {
	if g.given != nil {
		return g.given(text)
	}
	return maphash.String(g.seed, text)
}

// question is a request whose cost is guessed.
type question struct {
	asker
	hashes
	views [maxFeatures]view // of the features, in the same order
	bestMatch
}

// begin sets the client and the features of a request.
func (g *Estimator) begin(now time.Time, k *Kind, q *question) {
	g.Hash(k)
	q.hashes = k.hashes
	q.asker = asker{from: witness(q.address), known: k.Known, at: now.UnixMilli()}
}

// look finds the known costs of requests like this one.
func (g *Estimator) look(now time.Time, k *Kind, q *question) {
	g.begin(now, k, q)
	for i, feature := range q.features() {
		g.kinds.find(feature, &q.asker, &q.views[i])
	}
	g.match(q)
}

// Ask counts a request, and returns what Of returns. If requests with a feature are frequent and rarely answered,
// Of is cautious about that feature.
func (g *Estimator) Ask(now time.Time, k Kind) (cost, idle time.Duration, sure bool) {
	var q question
	g.look(now, &k, &q)
	for i, feature := range q.features() {
		if q.views[i].n < least {
			g.asked.ask(feature)
		}
	}
	return g.guess(&k, &q)
}

// Unask takes back an Ask, for a request that was rejected or redirected for reasons other than its cost.
func (g *Estimator) Unask(k Kind) {
	g.Hash(&k)
	for _, feature := range k.hashes.features() {
		g.asked.unask(feature)
	}
}

// Of returns the likely cost of a request, how long it will likely hold a worker without computing, and whether
// the guess is sure. A guess is sure if it is based on answers to similar requests.
//
// The guess isn't sure if requests with a feature of the request are frequent and rarely answered. Such a
// feature may make the request cheap or expensive, and even the client's own answers don't show which. The guess
// also isn't sure while a similar request costs far more than its guess, and shortly after that. The guess is at
// least as high as the cost so far of the client's running requests, but these don't count as answers.
func (g *Estimator) Of(now time.Time, k Kind) (cost, idle time.Duration, sure bool) {
	var q question
	g.look(now, &k, &q)
	return g.guess(&k, &q)
}

// guess is Of for a question whose known costs were found.
func (g *Estimator) guess(k *Kind, q *question) (cost, idle time.Duration, sure bool) {
	x, waits, sure, vouched := q.cost(), q.idle, q.believed, false
	expected := x
	if own, ok := g.perClient.find(mix(q.client, q.feature)); ok {
		if sure || own.n == 0 { // without answers, the client's own cost is only a minimum
			x = own.doubted(q.at, x)
		} else { // there is no cost of others to compare it with
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
	if sure = sure && !q.uncertain && !g.rarelyAnswered(q); !sure {
		running, idle := g.unanswered(q)
		x, waits = max(x, running, g.novel(k, q)), max(waits, idle)
	}
	return max(floor, seconds(x)), seconds(float64(waits)), sure
}

// Running returns the highest known cost of similar requests, even if it isn't sure: from running requests,
// from too few answers, or from answers to too few clients. Zero means that nothing is known about similar
// requests.
func (g *Estimator) Running(now time.Time, k Kind) time.Duration {
	var q question
	g.look(now, &k, &q)
	x, _ := g.unanswered(&q)
	if q.answered {
		x = max(x, q.cost())
	} else {
		x = max(x, g.novel(&k, &q))
	}
	return seconds(max(x, q.highest, float64(q.over)))
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// Learn records the cost of a request, and how long the request held a worker without computing.
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
	if !q.answered {
		for _, whose := range [...]uint64{anyClient, g.family(&k)} {
			g.perClient.learn(mix(whose, novelKinds), q.at, min(x, mostNovel), 0)
		}
	}
}

// AtLeast records the cost of a running request so far, and how long the request held a worker without computing.
// If its client has few answers, similar requests of the client are assumed to cost at least as much. If the cost
// is far beyond the guess, the guesses for all similar requests are in doubt. Features without enough answers
// are then assumed to be equally expensive, for every client.
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
			g.perClient.atLeast(mix(anyClient, feature), q.at, max(soFar, idle).Seconds(), idle.Seconds())
		case overruns:
			g.kinds.change(feature, func(f *featureRecord) { f.over.told(&q.asker, x) })
		}
	}
}

// anyClient replaces a client's hash in entries for features without enough answers, which apply to all
// clients.
const anyClient = 0

const (
	// novelKinds replaces the feature in the entries for answers to requests of kinds without enough answers: one
	// entry for all, and one for each family.
	novelKinds = 1
	// leastNovel is the number of such answers that novel needs in the entry for all, because all kinds lack answers
	// after a start.
	leastNovel = 16
	// mostNovel is the largest cost, in seconds, with which such an answer counts. An expensive answer therefore soon
	// fades. It is more than the 1.6 s of the rung on which requests of unknown kinds wait, so a family that is
	// expensive leaves that rung.
	mostNovel = 2
)

// novel returns the cost of the latest requests of kinds without enough answers, or 0 if the request isn't of such
// a kind. Most backends ignore unknown parameters, so a client can invent one for each request, and each of these
// requests is then of a new kind. A family with answers has a cost of its own, which fades towards the others' if it
// is higher. Expensive requests with invented parameters therefore don't make a wiki's rarely read pages look
// expensive.
func (g *Estimator) novel(k *Kind, q *question) (x float64) {
	if q.answered {
		return 0
	}
	if all, _ := g.perClient.find(mix(anyClient, novelKinds)); all.n >= leastNovel {
		x = all.cost() * faded(all.at, q.at)
	}
	if family, _ := g.perClient.find(mix(g.family(k), novelKinds)); family.n >= least {
		x = family.doubted(q.at, x)
	}
	return x
}

// unanswered returns the cost in seconds and the idle time of similar requests that run now or ran recently,
// according to features without enough answers. Among features that are requested often, it uses the one with the
// lowest cost, because that feature may be what makes the request cheap.
func (g *Estimator) unanswered(q *question) (x float64, idle float32) {
	often := false
	for i, feature := range q.features() {
		if q.views[i].believed {
			continue
		}
		cost, waits := 0.0, float32(0)
		if p, ok := g.perClient.find(mix(anyClient, feature)); ok {
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

// bestMatch is the feature on which a guess is based.
type bestMatch struct {
	view
	feature   uint64
	over      float32 // the cost of a similar request whose guess was far too low
	answered  bool    // there are enough answers to similar requests
	highest   float64 // the highest cost according to features with answers to too few clients
	uncertain bool    // the highest cost is far beyond the guess
}

// match finds the feature on which the guess is based. If no feature has enough answers, match uses the shape,
// with the costs of all requests.
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
		case !t.believed: // only too few clients have received answers
			q.highest, over = max(q.highest, t.cost()), max(over, t.over)
		case t.uncertainty <= best:
			q.view, q.feature, best, q.answered = *t, q.buffer[i], t.uncertainty, true
		}
	}
	q.over, q.uncertain = max(over, q.blamed()), beyond(q.highest, q.cost())
}

// blamed returns the cost of a similar request whose guess was far too low. The feature that made that request
// expensive isn't known, so all of them are in doubt. If this request has another feature that is trusted and
// was cheap, that feature's cost is returned instead.
func (q *question) blamed() float32 {
	over := q.view.over
	for i := range q.features() {
		if v := &q.views[i]; v.believed {
			over = min(over, max(v.over, float32(v.cost())))
		}
	}
	return over
}

// rarelyAnswered reports whether, for one of the request's features, there were far more requests than answers.
func (g *Estimator) rarelyAnswered(q *question) bool {
	for i := 1; i < q.count; i++ {
		if n := uint32(q.views[i].n); n < least && g.asked.times(q.buffer[i]) >= least+n {
			return true
		}
	}
	return false
}
