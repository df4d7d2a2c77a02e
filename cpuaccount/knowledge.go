package cpuaccount

import "time"

// Knowledge is what a guess rests on.
type Knowledge struct {
	Cost    time.Duration // that a request of the kind will likely have, for this client
	Idle    time.Duration // for how long it will likely hold a worker without computing
	Sure    bool          // that rests on answers
	Answers int           // to similar requests; at most 65,535
	Asked   int           // how often the feature was asked for without an answer that counts
	Overran bool          // one recently cost far more than was guessed
}

// Known returns what the guess of a request is based on. It changes nothing.
func (g *Estimator) Known(now time.Time, k Kind) (n Knowledge) {
	var q question
	g.look(now, &k, &q)
	n.Cost, n.Idle, n.Sure = g.Of(now, k)
	n.Answers, n.Asked, n.Overran = int(q.n), int(g.asked.times(q.feature)), q.over > 0
	return n
}
