package limiter

import "time"

// Refuses tells whether a request with these keys would be refused for debt if
// it arrived now. Nobody has to send its body for that. It charges nothing and
// remembers nothing: Arrive decides anew.
func (l *Limiter) Refuses(now time.Time, keys []Key) bool {
	at := l.since(now)
	if l.policy.Load().Mode == Observe {
		return false
	}
	for _, k := range keys[:min(len(keys), MaxKeys)] {
		owes, by := l.table.Debt(at, k)
		if by != nil && by.Concerns(owes) && !by.Shadow && owes > by.MaxHold {
			return true
		}
	}
	return false
}
