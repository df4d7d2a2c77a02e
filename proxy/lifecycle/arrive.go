package lifecycle

import (
	"net/http"
	"time"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/limiter"
)

// Classify finds out who asks. The request and the rules are kept until the Life
// ends; what the server saw of it is not.
func (l *Life) Classify(now time.Time, g *Gatekeeper, rules *Rules, r *http.Request, seen classify.Seen) {
	l.gate, l.rules, l.request, l.came, l.visit = g, rules, r, now, standing.Visit{}
	rules.Classifier.ClassifySeen(r, seen, &l.Who)
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

// WouldRefuse reports whether the request would be refused, judged on arrival.
func (l *Life) WouldRefuse() bool {
	return !l.Who.Exempt && l.gate.Limiter.Refuses(l.came, l.Who.Keys())
}

// Arrive has the request ask for a place at the backend. If it uploads, a part of
// its body is still to come.
func (l *Life) Arrive(now time.Time, uploads bool) {
	l.uploads = uploads
	l.gate.Guess.Ask(l.Kind())
	e := l.estimate(now)
	l.Guess, l.idle, l.sure = e.Guess, e.Idle, e.Sure
	client, within, others := l.Who.Identity()
	l.ticket = l.gate.Limiter.Arrive(now, limiter.Arrival{
		Client: client, Within: within, Others: others, Site: l.Who.Site, Guess: e.Guess, Idle: e.Idle, Running: e.Running, Sure: e.Sure,
		Standing: l.Who.Standing, Proven: l.Who.Evidence.Proves() || l.Who.Account, ClientsBehind: l.Who.ClientsBehind, Passed: l.passed,
		Pooled:  l.Who.Pooled,
		Session: l.Who.Session, Face: l.Who.Face, Follows: l.Who.Follows, Prefetch: l.Who.Prefetch,
		Memory: l.memory,
	})
}

// Decided is closed when it is decided whether the request may go to the backend.
func (l *Life) Decided() <-chan struct{} { return l.ticket.Decided() }

// Reguess guesses again for a waiting request, because requests of its kind may have been
// answered since.
func (l *Life) Reguess(now time.Time) {
	l.gate.Limiter.Reguess(now, l.ticket, l.estimate(now))
}

// Admitted takes down the Verdict once that is decided, and tells whether the
// request may go to the backend.
func (l *Life) Admitted() bool {
	l.Verdict = l.ticket.Verdict()
	return !l.Verdict.Refused()
}
