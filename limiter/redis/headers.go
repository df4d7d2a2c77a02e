package redis

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The units of a quota in the draft fields.
const (
	Requests        = "requests"
	CPUMilliseconds = "cpu-milliseconds"
)

// SetFields writes how a bucket stands into a response's header: X-RateLimit-
// Remaining and -Clear always; -Reset and Retry-After only if the request was
// blocked. Seconds have three decimals, but for Retry-After, which is rounded up.
func (i Info) SetFields(h http.Header) {
	// Field names are compared without case; these are written as they are known.
	h["X-RateLimit-Remaining"] = []string{strconv.FormatInt(i.Remaining, 10)}
	h["X-RateLimit-Clear"] = []string{decimals(i.FullReset)}
	if i.Blocked {
		h["X-RateLimit-Reset"] = []string{decimals(i.Reset)}
		h["Retry-After"] = []string{strconv.FormatInt(i.ResetSeconds(), 10)}
	}
}

func decimals(d time.Duration) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// Quota is what the fields RateLimit and RateLimit-Policy of the IETF's draft
// draft-ietf-httpapi-ratelimit-headers-10 tell of one limit.
type Quota struct {
	Name      string
	Unit      string        // Requests or CPUMilliseconds
	Quota     int64         // units in a window
	Window    time.Duration // in which a quota that was used up is there again
	Remaining int64         // units left
	Reset     time.Duration // until the whole quota is there again
}

// Quota is how a bucket stands, for the draft's fields. That of the zero Bucket
// has no window.
func (b Bucket) Quota(name string, i Info) Quota {
	if !b.limits() {
		return Quota{Name: name, Unit: Requests}
	}
	return Quota{
		Name: name, Unit: Requests,
		Quota: b.Size, Window: milliseconds(b.drips(b.Size)),
		Remaining: i.Remaining, Reset: i.FullReset,
	}
}

// CreditQuota is how an account in CPU time stands, for the draft's fields: the
// quota is what can be saved up, and debt leaves nothing of it. CPUs must be above 0.
func CreditQuota(name string, cpus float64, burst, level time.Duration) Quota {
	return Quota{
		Name: name, Unit: CPUMilliseconds,
		Quota: burst.Milliseconds(), Window: milliseconds(float64(burst.Milliseconds()) / cpus),
		Remaining: max(0, level.Milliseconds()),
		Reset:     milliseconds(float64((burst - level).Milliseconds()) / cpus),
	}
}

// SetDraftFields writes quotas into a response's header, in the order given. One
// without a window is left out.
func SetDraftFields(h http.Header, quotas ...Quota) {
	var policy, state []string
	for _, q := range quotas {
		if q.Window <= 0 {
			continue
		}
		name := quoted(q.Name)
		policy = append(policy, fmt.Sprintf(`%s;q=%d;qu=%s;w=%d`, name, q.Quota, quoted(q.Unit), seconds(q.Window)))
		state = append(state, fmt.Sprintf(`%s;r=%d;t=%d`, name, q.Remaining, seconds(q.Reset)))
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
