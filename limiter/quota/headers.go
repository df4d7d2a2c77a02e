package quota

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tempomat/limiter"
)

// Headers says which fields tell clients how rules stand.
type Headers int

// The ways to tell clients.
const (
	NoHeaders  Headers = iota
	Classic            // X-RateLimit-Remaining, -Clear, and -Reset of who is blocked
	Draft              // RateLimit and RateLimit-Policy of the IETF's draft
	WithCredit         // as Draft, and in them the client's own account in CPU time
)

// The units of a quota in the draft's fields.
const (
	requests        = "requests"
	cpuMilliseconds = "cpu-milliseconds"
)

// standings is how the rules stand that a request was held against.
type standings struct {
	worst  Status // the one with the least room
	quotas []quota
	any    bool
}

func (s *standings) add(name string, b Bucket, is Status) {
	if !s.any || is.Blocked || is.Remaining < s.worst.Remaining {
		s.worst = is
	}
	s.any = true
	s.quotas = append(s.quotas, b.quota(name, is))
}

// fields tell a client of them. Retry-After is the proxy's to give.
func (s *standings) fields(how Headers) map[string][]string {
	if !s.any {
		return nil
	}
	h := map[string][]string{}
	if how == Draft || how == WithCredit {
		setDraftFields(h, s.quotas...)
	} else {
		s.worst.SetFields(h)
		delete(h, "Retry-After")
	}
	return h
}

// SetFields writes how a bucket stands into a response's header: X-RateLimit-
// Remaining and -Clear always; -Reset and Retry-After only if the request was
// blocked. Seconds have three decimals, but for Retry-After, which is rounded up.
func (s Status) SetFields(h map[string][]string) {
	// Field names are compared without case; these are written as they are known.
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(s.Remaining, 10)}
	h["X-RateLimit-Clear"] = []string{decimals(s.FullReset)}
	if s.Blocked {
		h["X-RateLimit-Reset"] = []string{decimals(s.Reset)}
		h["Retry-After"] = []string{strconv.FormatInt(s.ResetSeconds(), 10)}
	}
}

func decimals(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// quota is what the fields RateLimit and RateLimit-Policy of the IETF's draft
// draft-ietf-httpapi-ratelimit-headers-10 tell of one limit.
type quota struct {
	name      string
	unit      string
	quota     int64         // units in a window
	window    time.Duration // in which a quota that was used up is there again
	remaining int64         // units left
	reset     time.Duration // until the whole quota is there again
}

// quota is how a bucket stands, for the draft's fields. That of the zero Bucket
// has no window.
func (b Bucket) quota(name string, s Status) quota {
	if !b.Limits() {
		return quota{name: name, unit: requests}
	}
	return quota{
		name: name, unit: requests,
		quota: b.Size, window: milliseconds(b.drips(b.Size)),
		remaining: s.Remaining, reset: s.FullReset,
	}
}

// creditQuota is how an account in CPU time stands, for the draft's fields: the quota is
// what can be saved up, and debt leaves nothing of it.
func creditQuota(name string, b limiter.Balance) quota {
	burst, level := asDuration(b.Burst), asDuration(b.Level)
	return quota{
		name: name, unit: cpuMilliseconds,
		quota: burst.Milliseconds(), window: milliseconds(float64(burst.Milliseconds()) / b.Rate),
		remaining: max(0, level.Milliseconds()),
		reset:     milliseconds(float64((burst - level).Milliseconds()) / b.Rate),
	}
}

func asDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// setDraftFields writes quotas into a response's header, in the order given. One
// without a window is left out.
func setDraftFields(h map[string][]string, quotas ...quota) {
	var policy, state []string
	for _, q := range quotas {
		if q.window <= 0 {
			continue
		}
		name := quoted(q.name)
		policy = append(policy, fmt.Sprintf(`%s;q=%d;qu=%s;w=%d`, name, q.quota, quoted(q.unit), seconds(q.window)))
		state = append(state, fmt.Sprintf(`%s;r=%d;t=%d`, name, q.remaining, seconds(q.reset)))
	}
	if policy != nil {
		h["RateLimit-Policy"] = []string{strings.Join(policy, ", ")}
		h["RateLimit"] = []string{strings.Join(state, ", ")}
	}
}

// quoted writes a String of RFC 9651. What it cannot hold becomes a question mark.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r < ' ' || r > '~':
			b.WriteByte('?')
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
