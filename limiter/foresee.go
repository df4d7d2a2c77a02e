package limiter

import "time"

// Refuses tells whether a request for a site with these keys would be refused for debt if
// it arrived now. Nobody has to send its body for that. It charges nothing and
// remembers nothing: Arrive decides anew.
func (l *Limiter) Refuses(now time.Time, site string, keys []Key) bool {
	at, refused := l.since(now), false
	if l.table.policy.Load().lenience(site) != strict {
		return false
	}
	for _, k := range keys[:min(len(keys), MaxKeys)] {
		l.table.look(k, func(b *bucket) {
			d := debt{b, b.budget, b.debtLocked(at)}
			refused = refused || d.matters() && !b.budget.shadow && d.wait > b.budget.maxHold
		})
	}
	return refused
}
