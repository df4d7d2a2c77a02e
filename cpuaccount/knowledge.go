package cpuaccount

import "time"

// Knowledge is a guess and the facts on which it is based.
type Knowledge struct {
	Cost    time.Duration // the likely cost for this client
	Idle    time.Duration // how long the request will likely hold a worker without computing
	Sure    bool          // the guess is based on answers
	Answers int           // number of answers to similar requests; at most 65,535
	Asked   int           // similar requests without an answer that counts
	Overran bool          // a similar request recently cost far more than guessed
}

// Known returns the guess for a request and the facts on which it is based. It changes nothing.
func (g *Estimator) Known(now time.Time, k Kind) (n Knowledge) {
	var q question
	g.look(now, &k, &q)
	n.Cost, n.Idle, n.Sure = g.Of(now, k)
	n.Answers, n.Asked, n.Overran = int(q.n), int(g.asked.times(q.feature)), q.over > 0
	return n
}
