package limiter

import "time"

// retry is the least time after which asking again is worth it.
const retry = time.Second

// blame is a key's claim on a request's time.
type blame struct {
	bucket *bucket
	wait   time.Duration
}

func (b *blame) worse(c *bucket, wait time.Duration) {
	if wait > b.wait {
		*b = blame{c, wait}
	}
}

// judge says what the debts of a request's keys mean for it, and which bucket
// it has to wait for first, if any. It charges nothing.
func (l *Limiter) judge(at time.Duration, p *policy, t *Ticket) (Verdict, *bucket) {
	var capped, held, shadow blame
	t.each(func(s *slot) {
		wait, b := s.bucket.debt(at)
		switch {
		case !b.cap && !b.hold:
		case b.shadow:
			shadow.worse(s.bucket, wait)
		case b.cap:
			capped.worse(s.bucket, wait)
		default:
			held.worse(s.bucket, wait)
		}
	})
	worst := capped
	worst.worse(held.bucket, held.wait)
	switch {
	case worst.wait > p.MaxHold:
		return worst.verdict(Refuse), nil
	case capped.bucket != nil:
		return l.roomFor(p, t, capped), capped.bucket
	case held.bucket != nil:
		return l.roomFor(p, t, held), nil
	case shadow.bucket != nil:
		v := shadow.verdict(Go)
		if v.Shadow = true; v.Wait > p.MaxHold {
			v.Action = Refuse
		}
		return v, nil
	}
	return Verdict{}, nil
}

func (b blame) verdict(a Action) Verdict {
	v := Verdict{Action: a, Wait: b.wait, Key: b.bucket.key, Reason: Debt}
	if a == Refuse {
		v.Wait = max(v.Wait, retry)
	}
	return v
}

// roomFor refuses a request that would have to be held, now or after it ran, if
// there is no room for it.
func (l *Limiter) roomFor(p *policy, t *Ticket, b blame) Verdict {
	l.room.mu.Lock()
	full := l.room.fullLocked(p, t)
	l.room.mu.Unlock()
	if full == None {
		return Verdict{}
	}
	v := b.verdict(Refuse)
	v.Reason = full
	return v
}
