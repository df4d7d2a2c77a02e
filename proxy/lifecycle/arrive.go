package lifecycle

import (
	"net/http"
	"time"

	"tempomat/classify/standing"
	"tempomat/limiter"
)

// Classify finds the client and its keys. Once the client is known, own reports whether the request is a call of the
// site to itself. The Life keeps the request and the rules until it ends.
func (l *Life) Classify(now time.Time, g *Shared, rules *Rules, r *http.Request, own func() bool) {
	l.gate, l.rules, l.request, l.came, l.visit = g, rules, r, now, standing.Visit{}
	rules.Classifier.Classify(r, &l.Who)
	l.Who.Own = own()
	isRobot := rules.Robots != nil && rules.Robots.Recognise(now, r, &l.Who)
	if rules.Standing != nil && !l.Who.Exempt && !isRobot {
		rules.Standing.Assess(now, r, &l.Who, &l.visit)
	}
	if rules.Pins != nil && !l.Who.Exempt {
		rules.Pins.Apply(now, &l.Who)
	}
	if rules.Newcomers != nil {
		l.passed = rules.Newcomers.Verify(now, r, &l.Who)
	}
}

// WouldRefuse reports whether the limiter would reject the request if it arrived now.
func (l *Life) WouldRefuse() bool {
	return !l.Who.Exempt && l.gate.Limiter.Refuses(l.came, l.Who.Keys())
}

// Arrive asks for a place at the backend. uploads is true if a part of the request's body has yet to arrive.
func (l *Life) Arrive(now time.Time, uploads bool) {
	l.uploads = uploads
	l.kind = l.Kind()
	l.gate.Guess.Hash(&l.kind)
	e := l.estimate(now, l.gate.Guess.Ask)
	l.Guess, l.idle, l.sure = e.Guess, e.Idle, e.Sure
	client, within, others := l.Who.Identity()
	l.ticket = l.gate.Limiter.Arrive(now, limiter.Arrival{
		Client: client, Within: within, Others: others, Site: l.Who.Site, Guess: e.Guess, Idle: e.Idle, Running: e.Running, Sure: e.Sure,
		Standing: l.Who.Standing, Proven: l.Who.Evidence.Proves() || l.Who.Account, ClientsBehind: l.Who.ClientsBehind,
		Person: l.Who.Person, Passed: l.passed, Pooled: l.Who.Pooled, Uploads: uploads,
		Session: l.Who.Session, Face: l.Who.Face, Follows: l.Who.Follows, Prefetch: l.Who.Prefetch,
		Memory: l.memory,
	})
}

// Decided returns a channel that is closed when the limiter has decided whether the request may go to the backend.
func (l *Life) Decided() <-chan struct{} { return l.ticket.Decided() }

// Reguess guesses again for a waiting request, because requests of its kind may have been
// answered since.
func (l *Life) Reguess(now time.Time) {
	l.gate.Limiter.Reguess(now, l.ticket, l.estimate(now, l.gate.Guess.Of))
}

// Admitted stores the Verdict, and reports whether the request may go to the backend. Call it after Decided.
func (l *Life) Admitted() bool {
	l.Verdict = l.ticket.Verdict()
	return !l.Verdict.Refused()
}
