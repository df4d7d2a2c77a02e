package proxy

import "time"

// newcomerWaits is how long a stranger's navigation waits before it is redirected:
// longer than any wait that nobody notices, and not so long that the round trip
// is felt beside it.
const newcomerWaits = 100 * time.Millisecond

// patience tells when a request that waits is to be redirected: never, if its
// client is known, has a pass already, or cannot be told to come back.
func (x *exchange) patience() (over <-chan time.Time, stop func() bool) {
	n := x.policy.Newcomers
	if n == nil || x.pass || !x.ticket.Stranger() || !n.Eligible(x.arrived, x.request, &x.who) {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(newcomerWaits)
	return timer.C, timer.Stop
}

// sendBack redirects a newcomer to where it wants to go. A browser is back at
// once, with the pass that lets it go first among strangers.
func (x *exchange) sendBack() {
	x.outcome = Redirected
	x.policy.Newcomers.Redirect(time.Now(), &x.writer, x.request, &x.who)
}
