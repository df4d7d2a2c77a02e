package lifecycle

import (
	"net/http"
	"time"
)

// newcomerWaits is how long a stranger's navigation waits before it is redirected: longer than
// a wait that people don't notice, and long enough that the round trip adds little.
const newcomerWaits = 100 * time.Millisecond

// RedirectAfter is how long a request waits before it is redirected; 0: it never is, because
// its client is known, has a pass already, or can't follow a redirect.
func (l *Life) RedirectAfter() time.Duration {
	n := l.rules.Newcomers
	if n == nil || l.passed || !l.ticket.Stranger() || !n.Eligible(l.came, l.request, &l.Who) {
		return 0
	}
	return newcomerWaits
}

// Redirect sends a newcomer that has waited for RedirectAfter to where it wants to
// go. A browser is back at once, with the pass that lets it go first among
// strangers.
func (l *Life) Redirect(now time.Time, w http.ResponseWriter) {
	l.gate.Guess.Unask(l.Kind())
	l.rules.Newcomers.Redirect(now, w, l.request, &l.Who)
}
