package proxy

import (
	"time"

	"tempomat/limiter"
)

// haunt makes a ghost of a request whose client has gone, if the backend most
// likely goes on with it: PHP notices only when it sends something. Until that
// must be done the request keeps its slot at the gate, or who hangs up early
// could have any number of pages computed at a time.
func (h *Handler) haunt(now time.Time, x *exchange) bool {
	if x.outcome != ClientGone || x.ticket == nil || x.writer.status != 0 ||
		x.policy.Limits.Mode != limiter.Fair || x.span.SoFar(now) >= x.guess {
		return false
	}
	x.cost = x.guess // for the journal
	h.running.haunt(x)
	return true
}

// lay ends a ghost whose work must be done by now. It pays for all of it.
func (h *Handler) lay(now time.Time, x *exchange) {
	h.running.remove(x)
	h.limiter.Settle(now, x.ticket, x.span.End(now))
	h.limiter.Leave(now, x.ticket)
}
