package master

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"tempomat/limiter/smockron"
)

// Kind is how a rule decides.
type Kind uint8

// The kinds.
const (
	// Bucket is what the first master's script does: a token bucket that lets
	// burst requests and one more pass at once.
	Bucket Kind = iota
	// History is the protocol's text: no more than burst requests in the time that
	// these take at the rate, and after that one at a time.
	History
	// Credit charges what requests cost, in CPU-seconds.
	Credit
)

func (k Kind) String() string {
	switch k {
	case History:
		return "history"
	case Credit:
		return "credit"
	case Bucket:
	}
	return "bucket"
}

// Rule is one limit that the identifiers of a domain are held to, each for itself.
type Rule struct {
	Kind Kind
	// Interval is the time between two requests at the rate, in whole milliseconds
	// from 1. Not of Credit.
	Interval time.Duration
	// Burst is how far an identifier may be ahead of the rate: burst requests times
	// Interval; of Credit, the most CPU time that it can save up.
	Burst time.Duration
	// CPUs is what Credit lets each identifier use, in CPU-seconds per second.
	CPUs float64
	// Memory bounds the debt of Credit: an identifier owes at most what it earns in this time.
	// Zero is two minutes, the sidecars' own default.
	Memory time.Duration
}

// String is the rule as the doctor shows it.
func (r *Rule) String() string {
	if r.Kind == Credit {
		return fmt.Sprintf("credit %g CPU-s/s, burst %v", r.CPUs, r.Burst)
	}
	return fmt.Sprintf("%v one per %v, burst %d", r.Kind, r.Interval, r.requests())
}

// state is what one rule remembers of one identifier. Times are milliseconds
// since 1970.
type state struct {
	at      int64   // Bucket: when the bucket was, or will be, full of requests. Credit: when level was right
	expires int64   // the last moment at which it matters; 0: it doesn't matter
	level   float64 // Credit: CPU-milliseconds, below zero debt
	times   []int64 // History: the latest requests, in a ring once there are burst of them
	oldest  int     // in times
}

// account takes in a request and returns when the identifier may ask again; a time
// that is past means at once.
func (r *Rule) account(s *state, now int64, a *smockron.Accounting) (until int64) {
	ts := a.Received
	if a.Until > 0 {
		ts = a.Until
	}
	switch r.Kind {
	case History:
		return r.history(s, now, ts)
	case Credit:
		return r.credit(s, now, a.Cost)
	case Bucket:
	}
	return r.bucket(s, now, ts)
}

// bucket is the first master's script. The state is forgotten burst after the
// latest request, even if the debt is greater.
func (r *Rule) bucket(s *state, now, ts int64) int64 {
	interval, burst := r.Interval.Milliseconds(), r.Burst.Milliseconds()
	n := max(ts, now)
	if now <= s.expires && s.at >= n-burst {
		s.at += interval
	} else {
		s.at = n - burst + interval
	}
	s.expires = n + burst
	return s.at
}

// history is the rate limiting logic of the protocol's text.
func (r *Rule) history(s *state, now, ts int64) int64 {
	size, window := r.requests(), now-r.Burst.Milliseconds()
	if len(s.times) < size {
		s.times = append(s.times, ts)
	} else {
		s.times[s.oldest] = ts
		s.oldest = (s.oldest + 1) % size
	}
	s.expires = max(s.expires, ts+r.Burst.Milliseconds())
	if len(s.times) < size || s.times[s.oldest] < window {
		return 0
	}
	for _, t := range s.times {
		if t < window {
			return 0
		}
	}
	return max(now, ts) + r.Interval.Milliseconds()
}

// requests is the burst as a number of them.
func (r *Rule) requests() int {
	return int(max(1, (r.Burst+r.Interval-1)/r.Interval))
}

// keepFull is for how many milliseconds Credit remembers who has its whole burst
// again, beyond the time that its request ran: what it earned then is not to pay for
// another one that ran next to it.
const keepFull = 30_000

// credit is a token bucket of CPU time. A request's cost arrives when it is done, and was used
// in the time before: what its identifier earned in that time pays for it, even if its savings
// were full. Otherwise one request at a time, at the rate, would be too much for a small burst.
func (r *Rule) credit(s *state, now int64, cost time.Duration) int64 {
	r.refill(s, now, cost)
	memory := cmp.Or(r.Memory, 2*time.Minute)
	s.level = min(ms(r.Burst), max(-r.CPUs*ms(memory), s.level-ms(cost)))
	s.expires = now + int64(math.Ceil((ms(r.Burst)-s.level)/r.CPUs)) + cost.Milliseconds() + keepFull
	return r.clear(s)
}

// refill adds what was earned since at; during the last part of it, ran, a request ran.
func (r *Rule) refill(s *state, now int64, ran time.Duration) {
	if s.expires == 0 {
		s.level, s.at = ms(r.Burst), now-ran.Milliseconds()
	}
	if now > s.at {
		s.level = min(ms(r.Burst)+r.CPUs*ms(ran), s.level+r.CPUs*float64(now-s.at))
		s.at = now
	}
}

// clear is when Credit's debt is paid.
func (r *Rule) clear(s *state) int64 {
	if s.level >= 0 {
		return 0
	}
	return s.at + int64(math.Ceil(-s.level/r.CPUs))
}

// next is what account returned last, as far as it still holds at the time.
func (r *Rule) next(s *state, now int64) int64 {
	switch {
	case s.expires < now:
		return 0
	case r.Kind == Bucket:
		return s.at
	case r.Kind == Credit:
		return r.clear(s)
	}
	if len(s.times) < r.requests() {
		return 0
	}
	latest := int64(0)
	for _, t := range s.times {
		if t < now-r.Burst.Milliseconds() {
			return 0
		}
		latest = max(latest, t)
	}
	return latest + r.Interval.Milliseconds()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
