package master

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"tempomat/limiter/smockron"
)

// Kind is the kind of a rule.
type Kind uint8

// The kinds.
const (
	// Bucket is the rule that the first master's script implements: a token bucket that admits burst requests
	// and one more at once.
	Bucket Kind = iota
	// History is the rule in the protocol's description: at most burst requests in the time that they take at
	// the rate, and after that one at a time.
	History
	// Credit charges the cost of requests, in CPU-seconds.
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

// Rule is one limit that applies to each identifier of a domain.
type Rule struct {
	Kind Kind
	// Interval is the time between two requests at the rate, in whole milliseconds, at least 1. Credit doesn't
	// use it.
	Interval time.Duration
	// Burst is how far an identifier may be ahead of the rate: a number of requests times Interval. For Credit,
	// it is the most CPU time that an identifier can save.
	Burst time.Duration
	// CPUs is the CPU time that Credit grants each identifier, in CPU-seconds per second.
	CPUs float64
	// Memory limits the debt of Credit: an identifier owes at most what it earns in this time. Zero means two
	// minutes, the default of the instances.
	Memory time.Duration
}

// String returns the rule as the doctor shows it.
func (r *Rule) String() string {
	if r.Kind == Credit {
		return fmt.Sprintf("credit %g CPU-s/s, burst %v", r.CPUs, r.Burst)
	}
	return fmt.Sprintf("%v one per %v, burst %d", r.Kind, r.Interval, r.requests())
}

// state is what one rule stores about one identifier. Times are milliseconds since 1970.
type state struct {
	at      int64   // Bucket: when the bucket was or will be full. Credit: the time to which level applies
	expires int64   // the time until which the state matters; 0: it doesn't matter
	level   float64 // Credit: CPU-milliseconds; negative: debt
	times   []int64 // History: the times of the latest requests; once there are burst of them, a ring buffer
	oldest  int     // History: index of the oldest one in times
}

// account handles a request and returns the time until which the identifier must wait. A time in the past means
// that the identifier needn't wait.
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

// bucket does the same as the first master's script. Like the script, it forgets the state one burst after the
// latest request, even if the debt is larger.
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

// history implements the rule in the protocol's description.
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

// requests returns the burst as a number of requests.
func (r *Rule) requests() int {
	return int(max(1, (r.Burst+r.Interval-1)/r.Interval))
}

// keepFull is how many milliseconds Credit still remembers an identifier after its burst is full again, in
// addition to the duration of its latest request. Otherwise, the identifier's earnings during that request
// could also pay for another one that ran at the same time.
const keepFull = 30_000

// credit is a token bucket of CPU time. A request's cost is reported when it has ended, but the CPU time was
// used earlier. The credit earned in that time therefore pays for the request, even if the bucket was full.
// Otherwise, a client that makes one request at a time, at exactly the rate, would exceed a small burst.
func (r *Rule) credit(s *state, now int64, cost time.Duration) int64 {
	r.refill(s, now, cost)
	memory := cmp.Or(r.Memory, 2*time.Minute)
	s.level = min(ms(r.Burst), max(-r.CPUs*ms(memory), s.level-ms(cost)))
	s.expires = now + int64(math.Ceil((ms(r.Burst)-s.level)/r.CPUs)) + cost.Milliseconds() + keepFull
	return r.clear(s)
}

// refill adds what the identifier has earned since s.at. For the last part of that time, ran, a request was
// running.
func (r *Rule) refill(s *state, now int64, ran time.Duration) {
	if s.expires == 0 {
		s.level, s.at = ms(r.Burst), now-ran.Milliseconds()
	}
	if now > s.at {
		s.level = min(ms(r.Burst)+r.CPUs*ms(ran), s.level+r.CPUs*float64(now-s.at))
		s.at = now
	}
}

// clear returns the time at which a debt of Credit is paid, or 0 if there is none.
func (r *Rule) clear(s *state) int64 {
	if s.level >= 0 {
		return 0
	}
	return s.at + int64(math.Ceil(-s.level/r.CPUs))
}

// next returns the result of the last call of account, if that result still applies.
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
