package cpuaccount

import "time"

// Knowledge is what a guess rests on.
type Knowledge struct {
	// Feature is what similar requests share: the shape, the URL or a parameter.
	Feature string
	Cost    time.Duration // that a request of the kind will likely have, for this client
	Idle    time.Duration // for how long it will likely hold a worker without computing
	Sure    bool          // that rests on answers
	Answers int           // to similar requests; at most 65,535
	Several bool          // they went to clients of several addresses
	Asked   int           // how often the feature was asked for without an answer that counts
	Own     int           // answers to the client itself, of the like
	Overran bool          // one recently cost far more than was guessed
}

// Known tells what the guess of a request rests on. It changes nothing.
func (g *Estimator) Known(now time.Time, k Kind) Knowledge {
	var buffer [maxFeatures]uint64
	by, client := g.asker(now, &k)
	features := g.features(&k, &buffer)
	var views [maxFeatures]view
	g.look(features, &by, &views)
	l := g.bestFeature(features, &views)
	var n Knowledge
	n.Cost, n.Idle, n.Sure = g.Of(now, k)
	for i, feature := range features {
		if feature == l.feature {
			n.Feature = k.feature(i)
			n.Answers, n.Several = int(views[i].n), views[i].several
		}
	}
	n.Asked, n.Overran = int(g.asked.times(l.feature)), l.over > 0
	if own, ok := g.perClient.find(mix(client, l.feature)); ok {
		n.Own = int(own.n)
	}
	return n
}
