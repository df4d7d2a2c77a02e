package lifecycle

import (
	"net/http"
	"time"
)

// newcomerWaits is how long a stranger's navigation waits before it is redirected. People hardly notice such a
// wait. After a longer wait, they hardly notice the redirect's round trip.
const newcomerWaits = 100 * time.Millisecond

// RedirectAfter returns how long a request waits before it is redirected; 0: it isn't redirected, because its
// client is known, already has a pass, or can't follow a redirect.
func (l *Life) RedirectAfter() time.Duration {
	n := l.rules.Newcomers
	if n == nil || l.passed || !l.ticket.Stranger() || !n.Eligible(l.came, l.request, &l.Who) {
		return 0
	}
	return newcomerWaits
}

// Redirect redirects a newcomer that has waited for RedirectAfter to the same page. A browser returns at once,
// with a pass that lets it go first among strangers.
func (l *Life) Redirect(now time.Time, w http.ResponseWriter) {
	l.gate.Guess.Unask(l.kind)
	l.rules.Newcomers.Redirect(now, w, l.request, &l.Who)
}
