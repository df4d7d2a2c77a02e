package limiter

import (
	"time"

	"tempomat/limiter/account"
)

// retry is the least time after which asking again is worth it.
const retry = time.Second

// debt is how a key stands as a request arrives.
type debt struct {
	bucket *bucket // nil: not known, which is as good as owing nothing
	terms  *account.Terms
	wait   time.Duration // until it owes nothing
}

// matters tells whether the key's class delays, or would if it were not in
// shadow, and the key owes something.
func (d *debt) matters() bool {
	return d.terms.Concerns(d.wait)
}

// worst keeps the longest wait.
func (d *debt) worst(e debt) {
	if e.wait > d.wait {
		*d = e
	}
}

// decide says what the debts of a request's keys mean for it, and which bucket
// it has to wait for first, if any. Classes in shadow have no part in either.
func (l *Limiter) decide(p *policy, t *Ticket, debts []debt) (Verdict, *bucket) {
	var over, capped, held, shadow debt
	for _, d := range debts {
		switch {
		case !d.matters() || p.Mode == Observe:
		case d.terms.Shadow:
			shadow.worst(d)
		case d.wait > d.terms.MaxHold:
			over.worst(d)
		case d.terms.Cap:
			capped.worst(d)
		default:
			held.worst(d)
		}
	}
	v, blocking := Verdict{}, (*bucket)(nil)
	switch {
	case over.bucket != nil:
		v = over.verdict(Refuse)
	case capped.bucket != nil:
		v, blocking = l.roomFor(p, capped, func() bool { return l.room.toShedLocked(capped.bucket) == nil }), capped.bucket
	case held.bucket != nil:
		v = l.roomFor(p, held, func() bool { return t.heldLocked(0) > 0 })
	case shadow.bucket != nil:
		v = shadow.verdict(Go)
		if v.Shadow = true; v.Wait > shadow.terms.MaxHold {
			v.Action = Refuse
		}
	}
	v.Would = shadow.would()
	return v, blocking
}

// would is what the key's class would do if it were not in shadow.
func (d debt) would() (w Would) {
	if d.bucket == nil {
		return w
	}
	if w.Key, w.Wait = d.bucket.Key, d.wait; w.Wait > d.terms.MaxHold {
		w.Action = Refuse
	}
	return w
}

func (d debt) verdict(a Action) Verdict {
	v := Verdict{Action: a, Wait: d.wait, Key: d.bucket.Key, Reason: Debt}
	if a == Refuse {
		v.Wait = max(v.Wait, retry)
	}
	return v
}

// roomFor refuses a request that would have to be held if the room is full by its own doing: it would wait in
// the longest queue, or its client has responses held already. Otherwise another one makes room for it, or its
// response is not held.
func (l *Limiter) roomFor(p *policy, d debt, own func() bool) Verdict {
	l.room.mu.Lock()
	refused := l.room.held >= p.MaxHeld && own()
	l.room.mu.Unlock()
	if !refused {
		return Verdict{}
	}
	v := d.verdict(Refuse)
	v.Reason = ServerFull
	return v
}
